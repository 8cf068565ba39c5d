//! A condition's text as tokens, each with its column.
//!
//! Here: names, numbers, quoted bytes and signs. Not here: what may stand where (`parser.rs`).

use std::iter::Peekable;
use std::str::Chars;

use super::Comparison;
use crate::error::{Error, Result};

/// Longest condition, in bytes: no person writes more, and what is larger should be a list behind `in` made smaller.
const TEXT_MAX: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A name in backticks, which is never a keyword.
    Quoted(String),
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
    Compare(Comparison),
    Plus,
    Minus,
    Times,
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// How an error speaks of it.
    pub(super) fn text(&self) -> String {
        match self {
            Token::Name(name) | Token::Quoted(name) => format!("{name:?}"),
            Token::Integer(_) | Token::Float(_) => "a number".to_owned(),
            Token::Bytes(_) => "quoted bytes".to_owned(),
            Token::Compare(_) => "a comparison".to_owned(),
            Token::Plus => "'+'".to_owned(),
            Token::Minus => "'-'".to_owned(),
            Token::Times => "'*'".to_owned(),
            Token::Open => "'('".to_owned(),
            Token::Close => "')'".to_owned(),
            Token::Comma => "','".to_owned(),
            Token::End => "the end".to_owned(),
        }
    }
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    column: usize,
}

/// All tokens with their columns; the last is `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    if text.len() > TEXT_MAX {
        return Err(Error::expression(1, format_args!("{} bytes long: at most {TEXT_MAX} are read", text.len())));
    }
    let mut lexer = Lexer { rest: text.chars().peekable(), column: 1 };
    let mut tokens = Vec::new();
    loop {
        while lexer.take_if(char::is_whitespace).is_some() {}
        let column = lexer.column;
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push((column, token));
        if end {
            return Ok(tokens);
        }
    }
}

impl Lexer<'_> {
    fn take(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.column += 1;
        Some(next)
    }

    fn take_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let next = self.rest.next_if(|next| wanted(*next))?;
        self.column += 1;
        Some(next)
    }

    fn token(&mut self) -> Result<Token> {
        let column = self.column;
        let Some(first) = self.take() else { return Ok(Token::End) };
        Ok(match first {
            '(' | '[' => Token::Open,
            ')' | ']' => Token::Close,
            ',' => Token::Comma,
            '+' => Token::Plus,
            '-' => Token::Minus,
            '*' => Token::Times,
            '=' if self.take_if(|next| next == '=').is_some() => Token::Compare(Comparison::Equal),
            '=' => return Err(Error::expression(column, "'=' is not an operator: write \"==\"")),
            '!' if self.take_if(|next| next == '=').is_some() => Token::Compare(Comparison::NotEqual),
            '<' if self.take_if(|next| next == '=').is_some() => Token::Compare(Comparison::LessEqual),
            '<' if self.take_if(|next| next == '>').is_some() => Token::Compare(Comparison::NotEqual),
            '<' => Token::Compare(Comparison::Less),
            '>' if self.take_if(|next| next == '=').is_some() => Token::Compare(Comparison::GreaterEqual),
            '>' => Token::Compare(Comparison::Greater),
            '&' | '|' | '!' | '~' => {
                return Err(Error::expression(column, format_args!("{first:?}: write \"and\", \"or\" and \"not\"")));
            }
            '/' | '%' | '^' => {
                return Err(Error::expression(column, format_args!("{first:?} is not an operator: use + - and *")));
            }
            '`' => self.quoted_name(column)?,
            '"' | '\'' => self.bytes(column, first, false)?,
            'b' | 'B' if matches!(self.rest.peek(), Some('"' | '\'')) => {
                let quote = self.take().unwrap_or('"');
                self.bytes(column, quote, true)?
            }
            '0'..='9' | '.' => self.number(column, first)?,
            letter if letter.is_alphabetic() || letter == '_' => {
                let mut name = String::from(letter);
                while let Some(next) = self.take_if(|next| next.is_alphanumeric() || next == '_') {
                    name.push(next);
                }
                Token::Name(name)
            }
            other => return Err(Error::expression(column, format_args!("{other:?} is not allowed here"))),
        })
    }

    /// A name between backticks; two of them are one within.
    fn quoted_name(&mut self, column: usize) -> Result<Token> {
        let mut name = String::new();
        loop {
            match self.take() {
                Some('`') if self.take_if(|next| next == '`').is_none() => return Ok(Token::Quoted(name)),
                Some(next) => name.push(next),
                None => return Err(Error::expression(column, "this name has no closing backtick")),
            }
        }
    }

    /// Bytes between quotes, with Python's escapes.
    fn bytes(&mut self, column: usize, quote: char, only_ascii: bool) -> Result<Token> {
        let mut bytes = Vec::new();
        loop {
            let at = self.column;
            match self.take() {
                None => return Err(Error::expression(column, format_args!("this has no closing {quote:?}"))),
                Some(end) if end == quote => return Ok(Token::Bytes(bytes)),
                Some('\\') => bytes.push(self.escape(at)?),
                Some(plain) if only_ascii && !plain.is_ascii() => {
                    return Err(Error::expression(at, format_args!("{plain:?} in bytes: write \\x and two digits")));
                }
                Some(plain) => bytes.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escape(&mut self, at: usize) -> Result<u8> {
        Ok(match self.take() {
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('r') => b'\r',
            Some('0') => 0,
            Some(same @ ('\\' | '\'' | '"')) => same as u8,
            Some('x') => {
                let digits = [self.take(), self.take()].map(|digit| digit.and_then(|digit| digit.to_digit(16)));
                match digits {
                    [Some(high), Some(low)] => (high * 16 + low) as u8,
                    _ => return Err(Error::expression(at, "\\x needs two hexadecimal digits")),
                }
            }
            _ => {
                return Err(Error::expression(
                    at,
                    "the escapes are \\n \\t \\r \\0 \\\\ \\' \\\" and \\x with two digits",
                ));
            }
        })
    }

    fn number(&mut self, column: usize, first: char) -> Result<Token> {
        let mut text = String::from(first);
        let radix = match (first, self.rest.peek()) {
            ('0', Some('x' | 'X')) => 16,
            ('0', Some('o' | 'O')) => 8,
            ('0', Some('b' | 'B')) => 2,
            _ => 10,
        };
        // A sign belongs to a number behind its exponent only.
        while let Some(next) = self.rest.peek().copied() {
            let signed = radix == 10 && matches!(next, '+' | '-') && text.ends_with(['e', 'E']);
            if !(next.is_ascii_alphanumeric() || matches!(next, '_' | '.') || signed) {
                break;
            }
            self.take();
            text.push(next);
        }
        let plain = text.replace('_', "");
        let wrong = || Error::expression(column, format_args!("{text:?} is not a number"));
        // As in Python, ambiguous numbers are refused: `1__0`, `1_`, and `010`, which is 8 in other languages.
        let digit = |at: usize| text[at..].starts_with(|one: char| one.is_digit(radix));
        let separates = |at: usize| digit(at + 1) && (digit(at - 1) || (radix != 10 && at == 2));
        if !text.match_indices('_').all(|(at, _)| separates(at)) {
            return Err(wrong());
        }
        if radix != 10 {
            return i128::from_str_radix(&plain[2..], radix).map(Token::Integer).map_err(|_| wrong());
        }
        if plain.bytes().all(|digit| digit.is_ascii_digit()) {
            if plain.starts_with('0') && plain.bytes().any(|digit| digit != b'0') {
                let why = format_args!("{text:?} begins with a zero: leave it out, or write 0o… for base 8");
                return Err(Error::expression(column, why));
            }
            return plain
                .parse()
                .map(Token::Integer)
                .map_err(|_| Error::expression(column, format_args!("{text} does not fit 128 bits")));
        }
        // Rust's own parser also takes words such as "inf", which cannot begin with a digit or a point.
        plain.parse().map(Token::Float).map_err(|_| wrong())
    }
}
