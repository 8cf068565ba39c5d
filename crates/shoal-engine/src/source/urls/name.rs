//! What objects are called: a template with the parts of their URL.

use ring::digest::{SHA256, digest};

use super::address::Url;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::name::Name;

/// Longest number that `{index:0Nd}` pads to.
const DIGITS_MAX: usize = 20;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The name in the list, or else the path.
    Name,
    Path,
    Host,
    Hash,
    /// The number of the record from 0, with at least so many digits.
    Index(usize),
    /// The field with the name in the list.
    Field(String),
}

/// The field that a template names, such as `sku` in `{sku}.jpg`.
pub(super) fn field_of(text: &str) -> Option<String> {
    let parts = NameTemplate::parts(text).ok()?;
    parts.into_iter().find_map(|part| if let Part::Field(field) = part { Some(field) } else { None })
}

impl NameTemplate {
    /// Parses a template such as `{host}/{path}`. `field`: the field of the list that it may name.
    ///
    /// # Errors
    /// [`Kind::Config`] for an unknown placeholder, and for one that gives all objects the same name or no safe one.
    pub fn parse(text: &str, field: Option<&str>) -> Result<NameTemplate> {
        let wrong = |why: &str| {
            let hint = "use {name}, {path}, {host}, {hash}, {index} or {index:09d}, as in '{host}/{path}', or one field of \
            the list, as in '{id}.jpg'";
            Error::new(Kind::Config, format!("`name`: {why}")).on(&escape(text.as_bytes())).hint(hint)
        };
        let template = NameTemplate(NameTemplate::parts(text).map_err(wrong)?);
        for part in &template.0 {
            match part {
                Part::Field(one) if field.is_none() => {
                    return Err(wrong(&format!("{{{one}}} is not a placeholder, and the list has no fields")));
                }
                Part::Field(one) if field != Some(one) => {
                    return Err(wrong(&format!("{{{one}}} would be a second field of the list; one is read")));
                }
                _ => {}
            }
        }
        let has_field = template.0.iter().any(|part| matches!(part, Part::Field(_)));
        if has_field && template.0.contains(&Part::Name) {
            return Err(wrong("beside a field of the list, {name} would be the same: use {path}"));
        }
        if !template.0.iter().any(|part| !matches!(part, Part::Text(_) | Part::Host)) {
            return Err(wrong("it gives several objects the same name"));
        }
        let sample = Url::parse("http://h/x").map_err(|why| wrong(&why))?;
        let mut name = Vec::new();
        template.push(&sample, field.map(|_| &b"x"[..]), 0, &mut name).map_err(|why| wrong(&why))?;
        Name::parse(&name).map_err(|error| wrong(&format!("it does not make a safe name: {}", error.why())))?;
        Ok(template)
    }

    fn parts(text: &str) -> std::result::Result<Vec<Part>, &'static str> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let inner = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let (inner, after) = inner.ok_or("a brace has no partner")?;
            parts.push(match inner {
                "name" => Part::Name,
                "path" => Part::Path,
                "host" => Part::Host,
                "hash" => Part::Hash,
                "index" => Part::Index(1),
                "" => return Err("{} names nothing"),
                _ if inner.starts_with("index:") => {
                    let digits = inner.strip_prefix("index:0").and_then(|digits| digits.strip_suffix('d'));
                    let digits = digits.and_then(|digits| digits.parse().ok()).filter(|&digits| digits <= DIGITS_MAX);
                    Part::Index(digits.ok_or("this placeholder is not known")?)
                }
                field => Part::Field(field.to_owned()),
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(parts)
    }

    /// Whether each name is one URL's: then a file of that name has its bytes.
    pub fn is_of_one_url(&self) -> bool {
        self.0.contains(&Part::Hash)
    }

    /// Appends the name of an object; the error says why it has none.
    pub fn push(
        &self,
        url: &Url<'_>,
        given: Option<&[u8]>,
        index: u64,
        name: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        let push_path = |name: &mut Vec<u8>| {
            let before = name.len();
            match url.push_path(name) {
                None => Err("its path is not percent-encoded correctly".to_owned()),
                Some(()) if name.len() == before || name.ends_with(b"/") => {
                    Err("its path does not end with a name: give it one in the list, NAME<TAB>URL, or use `name`"
                        .to_owned())
                }
                Some(()) => Ok(()),
            }
        };
        for part in &self.0 {
            match (part, given) {
                (Part::Text(text), _) => name.extend_from_slice(text.as_bytes()),
                (Part::Name | Part::Field(_), Some(given)) => name.extend_from_slice(given),
                (Part::Field(field), None) => {
                    return Err(format!(
                        "its field \"{}\" is empty, and its name is made of it",
                        escape(field.as_bytes())
                    ));
                }
                (Part::Name | Part::Path, _) => push_path(name)?,
                (Part::Host, _) => name.extend_from_slice(url.host().as_bytes()),
                (Part::Hash, _) => {
                    let digest = digest(&SHA256, &url.without_user());
                    digest.as_ref()[..16]
                        .iter()
                        .for_each(|byte| name.extend_from_slice(format!("{byte:02x}").as_bytes()));
                }
                (Part::Index(digits), _) => name.extend_from_slice(format!("{index:0digits$}").as_bytes()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(template: &str, url: &str, given: Option<&str>) -> String {
        let url = Url::parse(url).unwrap();
        let mut name = Vec::new();
        let pushed =
            NameTemplate::parse(template, Some("sku")).unwrap().push(&url, given.map(str::as_bytes), 17, &mut name);
        pushed.map_or_else(|why| why, |()| String::from_utf8(name).unwrap())
    }

    #[test]
    fn names_are_made_of_the_parts_of_the_url() {
        let url = "http://u:p@h:81/a/b%20c.jpg?size=2#x";
        assert_eq!(name("{name}", url, None), "a/b c.jpg");
        assert_eq!(name("{name}", url, Some("mine.jpg")), "mine.jpg");
        assert_eq!(name("{path}", url, Some("mine.jpg")), "a/b c.jpg");
        assert_eq!(name("{host}/{path}", url, None), "h:81/a/b c.jpg");
        assert_eq!(name("{index:09d}.jpg", url, None), "000000017.jpg");
        assert_eq!(name("x{index}", url, None), "x17");
        let hash = name("{hash}", url, None);
        assert!(hash.len() == 32 && hash == name("{hash}", "http://other:p@H:81/a/b%20c.jpg?size=2", None));
        assert_ne!(hash, name("{hash}", "http://h:81/a/b%20c.jpg?size=3", None));
    }

    #[test]
    fn a_template_may_name_one_field_of_the_list() {
        assert_eq!(name("{host}/{sku}.jpg", "http://h/x", Some("a1")), "h/a1.jpg");
        assert!(name("{sku}.jpg", "http://h/x", None).contains("field \"sku\" is empty"));
        assert_eq!((field_of("{host}/{sku}.jpg"), field_of("{name}-{index:03d}")), (Some("sku".to_owned()), None));
        let why = |field| NameTemplate::parse("{sku}/{size}", field).unwrap_err().to_string();
        assert!(why(None).contains("{sku} is not a placeholder, and the list has no fields"), "{}", why(None));
        let both = NameTemplate::parse("{name}-{sku}", Some("sku")).unwrap_err().to_string();
        assert!(both.contains("use {path}"), "{both}");
        assert!(why(Some("sku")).contains("{size} would be a second field"), "{}", why(Some("sku")));
    }

    #[test]
    fn a_path_without_a_name_says_what_to_do() {
        for url in ["http://h", "http://h/", "http://h/a/", "http://h/a/?b=c"] {
            assert!(name("{name}", url, None).contains("NAME<TAB>URL"), "{url}");
            assert_eq!(name("{index}", url, None), "17");
        }
        assert!(name("{name}", "http://h/%zz", None).contains("percent-encoded"));
    }

    #[test]
    fn templates_that_cannot_work_are_refused() {
        for template in
            ["", "x", "{host}", "{ext}", "{}", "{path", "path}", "{index:9d}", "{index:099d}", "../{path}", "/{path}"]
        {
            let error = NameTemplate::parse(template, None).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{template}");
        }
    }
}
