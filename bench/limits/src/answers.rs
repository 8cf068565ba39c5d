//! Just enough of HTTP/1.1 to ask one service of our own: status 200 and a `Content-Length`, nothing else.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// A connection and what has been received on it.
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    requests: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (host, requests) = (address.to_string(), Vec::new());
        Ok(Connection { stream, host, buffer: vec![0; BUFFER], start: 0, end: 0, requests })
    }

    /// Adds a request to those that `send` sends.
    pub fn ask(&mut self, path: &[&str]) {
        self.requests.extend_from_slice(b"GET ");
        path.iter().for_each(|part| self.requests.extend_from_slice(part.as_bytes()));
        self.requests.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        self.requests.extend_from_slice(self.host.as_bytes());
        self.requests.extend_from_slice(b"\r\n\r\n");
    }

    /// Where requests are added that `ask` cannot make.
    pub fn requests(&mut self) -> &mut Vec<u8> {
        &mut self.requests
    }

    pub fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// The body of the next answer.
    pub fn answer(&mut self) -> io::Result<&[u8]> {
        let (head, length) = loop {
            match self.head()? {
                Some(found) => break found,
                None => self.read(1)?,
            }
        };
        while self.end - self.start < head + length {
            self.read(head + length)?;
        }
        let body = self.start + head;
        self.start = body + length;
        Ok(&self.buffer[body..body + length])
    }

    /// Lengths of the head at hand and of its body.
    fn head(&self) -> io::Result<Option<(usize, usize)>> {
        let unread = &self.buffer[self.start..self.end];
        let Some(end) = memchr::memmem::find(unread, b"\r\n\r\n") else { return Ok(None) };
        let head = &unread[..end + 2];
        let length = memchr::memmem::find(head, b"ength: ").and_then(|at| {
            let digits = head[at + 7..].iter().take_while(|byte| byte.is_ascii_digit());
            digits.map(|&byte| usize::from(byte - b'0')).reduce(|number, digit| number * 10 + digit)
        });
        match length {
            Some(length) if head.starts_with(b"HTTP/1.1 200 ") => Ok(Some((end + 4, length))),
            _ => Err(io::Error::other(String::from_utf8_lossy(&head[..head.len().min(200)]).into_owned())),
        }
    }

    fn read(&mut self, needed: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() < needed.max(self.end + 1) {
            self.buffer.resize(needed.max(self.end + 1).next_power_of_two(), 0);
        }
        match self.stream.read(&mut self.buffer[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.end += bytes;
                Ok(())
            }
        }
    }
}
