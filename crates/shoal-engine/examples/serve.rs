//! Serves a list/get service: `cargo run --release --example serve -- DIR | COUNT:SIZE [PORT [THREADS]]`.
//!
//! Not here: signals and an access log; `shoal serve` has both. This serves until its standard input ends.

use shoal_engine::serve::{Content, Options, Server};
use std::error::Error;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().ok_or("pass a directory, or COUNT:SIZE for synthetic objects")?;
    let content = Content::parse_synthetic(&what).unwrap_or_else(|_| Content::Directory(PathBuf::from(&what)));
    let mut options = Options::default();
    if let Some(port) = arguments.next() {
        options.port = port.parse()?;
    }
    if let Some(threads) = arguments.next() {
        options.threads = Some(threads.parse()?);
    }
    let server = Server::start(content, options)?;
    println!("{}", server.url());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", server.stop(Duration::from_secs(5)));
    Ok(())
}
