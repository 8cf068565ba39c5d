//! Tokens to a tree, by recursive descent.
//!
//! Here: the grammar of `mod.rs`, rule by rule. Not here: whether fields exist and types fit (`bind.rs`).

use super::lexer::{Token, tokens};
use super::{Comparison, Literal, Node, Operation, Part};
use crate::error::{Error, Result};

/// Deepest nesting. Each level takes a few hundred bytes of stack, of which a thread may have as little as 512 KiB.
const DEPTH_MAX: usize = 100;

/// Most sums and products in all, for the same reason: each may nest what stands to its left one deeper.
const OPERATORS_MAX: usize = 1000;

const NEEDED: &str = "expected a field, a number, quoted bytes or '('";

pub(super) fn parse(text: &str) -> Result<Node> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, operators: 0 };
    if parser.peek() == &Token::End {
        return Err(Error::expression(1, "empty: write a comparison such as \"len > 100\""));
    }
    let root = parser.condition()?;
    match parser.peek() {
        Token::End => Ok(root),
        Token::Close => Err(Error::expression(parser.column(), "')' has no matching '('")),
        other => Err(Error::expression(
            parser.column(),
            format_args!("{} cannot follow here: \"and\", \"or\" or a comparison is missing", other.text()),
        )),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    operators: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn column(&self) -> usize {
        self.tokens[self.at].0
    }

    /// The next token with its column; the last one stays.
    fn take(&mut self) -> (usize, Token) {
        let taken = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }

    fn take_word(&mut self, word: &str) -> Option<usize> {
        let column = self.column();
        let found = matches!(self.peek(), Token::Name(name) if name == word);
        if found {
            self.take();
        }
        found.then_some(column)
    }

    /// Runs a rule one level deeper.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(Error::expression(self.column(), format_args!("nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn condition(&mut self) -> Result<Node> {
        self.joined("or", Part::Any, |parser| parser.joined("and", Part::All, Self::negated))
    }

    /// One part, or several with a word between them.
    fn joined(
        &mut self,
        word: &str,
        join: fn(Vec<Node>) -> Part,
        part: impl Fn(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let column = self.column();
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take_word(word).is_some() {
            parts.push(part(self)?);
        }
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return Ok(only);
        }
        Ok(Node { column, part: join(parts) })
    }

    fn negated(&mut self) -> Result<Node> {
        match self.take_word("not") {
            Some(column) => Ok(Node { column, part: Part::Not(Box::new(self.deeper(Self::negated)?)) }),
            None => self.comparison(),
        }
    }

    fn comparison(&mut self) -> Result<Node> {
        let begin = self.column();
        let mut left = self.sum()?;
        let outer = self.column();
        if self.take_word("in").is_some() {
            return Ok(Node { column: outer, part: Part::In(Box::new(left), self.list()?) });
        }
        if self.take_word("not").is_some() {
            if self.take_word("in").is_none() {
                return Err(Error::expression(self.column(), "expected \"in\" after this \"not\""));
            }
            let inside = Node { column: outer, part: Part::In(Box::new(left), self.list()?) };
            return Ok(Node { column: outer, part: Part::Not(Box::new(inside)) });
        }
        let mut all = Vec::new();
        while let Token::Compare(comparison) = *self.peek() {
            let (column, _) = self.take();
            let right = self.sum()?;
            value(&left)?;
            value(&right)?;
            let middle = right.clone();
            all.push(compare(column, comparison, left, right));
            left = middle;
        }
        match all.len() {
            0 => Ok(left),
            1 => Ok(all.remove(0)),
            _ => Ok(Node { column: begin, part: Part::All(all) }),
        }
    }

    fn list(&mut self) -> Result<Vec<(usize, Literal)>> {
        let (column, open) = self.take();
        if open != Token::Open {
            return Err(Error::expression(column, "expected a list after \"in\", as in \"id in (7, 8)\""));
        }
        let mut items = Vec::new();
        loop {
            if self.peek() == &Token::Close {
                self.take();
                return Ok(items);
            }
            items.push(self.list_item()?);
            match self.take() {
                (_, Token::Comma) => {}
                (_, Token::Close) => return Ok(items),
                (column, other) => {
                    return Err(Error::expression(column, format_args!("expected ',' or ')', got {}", other.text())));
                }
            }
        }
    }

    fn list_item(&mut self) -> Result<(usize, Literal)> {
        let column = self.column();
        let minus = self.peek() == &Token::Minus;
        if minus || self.peek() == &Token::Plus {
            self.take();
        }
        let literal = match self.take().1 {
            Token::Integer(value) if minus => Literal::Integer(-value),
            Token::Float(value) if minus => Literal::Float(-value),
            Token::Integer(value) => Literal::Integer(value),
            Token::Float(value) => Literal::Float(value),
            Token::Bytes(bytes) if !minus => Literal::Bytes(bytes),
            Token::Name(name) if !minus && truth(&name).is_some() => Literal::Truth(name.eq_ignore_ascii_case("true")),
            other => {
                let text = format!("a list can have numbers, quoted bytes, true and false, got {}", other.text());
                return Err(Error::expression(column, text));
            }
        };
        Ok((column, literal))
    }

    fn sum(&mut self) -> Result<Node> {
        self.chain(Self::product, |token| match token {
            Token::Plus => Some(Operation::Add),
            Token::Minus => Some(Operation::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Node> {
        self.chain(Self::signed, |token| (*token == Token::Times).then_some(Operation::Multiply))
    }

    /// Operands with operators between them, grouped from the left.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Node>,
        operator: fn(&Token) -> Option<Operation>,
    ) -> Result<Node> {
        let mut left = operand(self)?;
        while let Some(operation) = operator(self.peek()) {
            let (column, _) = self.take();
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                return Err(Error::expression(column, format_args!("more than {OPERATORS_MAX} sums and products")));
            }
            let right = operand(self)?;
            value(&left)?;
            value(&right)?;
            left = Node { column, part: Part::Arithmetic(operation, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Node> {
        let column = self.column();
        match self.peek() {
            Token::Minus => {
                self.take();
                let inner = self.deeper(Self::signed)?;
                value(&inner)?;
                let part = match inner.part {
                    Part::Literal(Literal::Integer(value)) => Part::Literal(Literal::Integer(-value)),
                    Part::Literal(Literal::Float(value)) => Part::Literal(Literal::Float(-value)),
                    _ => Part::Negative(Box::new(inner)),
                };
                Ok(Node { column, part })
            }
            Token::Plus => {
                self.take();
                self.deeper(Self::signed)
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Result<Node> {
        let (column, token) = self.take();
        let part = match token {
            Token::Integer(value) => Part::Literal(Literal::Integer(value)),
            Token::Float(value) => Part::Literal(Literal::Float(value)),
            Token::Bytes(bytes) => Part::Literal(Literal::Bytes(bytes)),
            Token::Quoted(name) => Part::Field(name),
            Token::Name(name) => match truth(&name) {
                Some(value) => Part::Literal(Literal::Truth(value)),
                None if matches!(name.as_str(), "and" | "or" | "not" | "in") => {
                    return Err(Error::expression(column, format_args!("{NEEDED}, got the word {name:?}")));
                }
                None => Part::Field(name),
            },
            Token::Open => {
                let inner = self.deeper(Self::condition)?;
                let (end, close) = self.take();
                if close != Token::Close {
                    let text = format!("expected ')' for the '(' at column {column}, got {}", close.text());
                    return Err(Error::expression(end, text));
                }
                return Ok(inner);
            }
            other => return Err(Error::expression(column, format_args!("{NEEDED}, got {}", other.text()))),
        };
        Ok(Node { column, part })
    }
}

/// Refuses a condition where a value belongs, before a chain of comparisons copies it.
fn value(node: &Node) -> Result<()> {
    match node.part {
        Part::Compare(..) | Part::In(..) | Part::Not(_) | Part::All(_) | Part::Any(_) => {
            Err(Error::expression(node.column, "a condition is not a value: join conditions with \"and\" and \"or\""))
        }
        _ => Ok(()),
    }
}

fn compare(column: usize, comparison: Comparison, left: Node, right: Node) -> Node {
    Node { column, part: Part::Compare(comparison, Box::new(left), Box::new(right)) }
}

/// The truth values, as people of several languages write them.
fn truth(name: &str) -> Option<bool> {
    match name {
        "true" | "True" => Some(true),
        "false" | "False" => Some(false),
        _ => None,
    }
}
