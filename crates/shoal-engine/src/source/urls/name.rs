//! What objects are called: a template with the parts of their URL.

use ring::digest::{SHA256, digest};

use super::address::Url;
use super::record::SEPARATOR;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::name::Name;

/// Longest number that `{index:0Nd}` pads to.
const DIGITS_MAX: usize = 20;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameTemplate {
    parts: Vec<Part>,
    /// A record gives the values of several fields.
    is_of_several: bool,
}

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
    /// The field of the list with this name, and which one of those it is.
    Field(String, usize),
}

/// The fields that a template names, such as `sku` in `{sku}.jpg`.
pub(super) fn fields_of(text: &str) -> Vec<String> {
    let mut fields = Vec::new();
    for part in NameTemplate::parts(text).unwrap_or_default() {
        match part {
            Part::Field(field, _) if !fields.contains(&field) => fields.push(field),
            _ => {}
        }
    }
    fields
}

impl NameTemplate {
    /// Parses a template such as `{host}/{path}`. `fields`: those of the list that are read for names, if it has any.
    ///
    /// # Errors
    /// [`Kind::Config`] for an unknown placeholder, and for one that gives all objects the same name or no safe one.
    pub fn parse(text: &str, fields: Option<&[String]>) -> Result<NameTemplate> {
        let wrong = |why: &str| {
            let hint = "use {name}, {path}, {host}, {hash}, {index} or {index:09d}, as in '{host}/{path}', or fields of \
            the list, as in '{shop}/{id}.jpg'";
            Error::new(Kind::Config, format!("`name`: {why}")).on(&escape(text.as_bytes())).hint(hint)
        };
        let mut parts = NameTemplate::parts(text).map_err(wrong)?;
        let mut has_field = false;
        for part in &mut parts {
            let Part::Field(one, at) = part else { continue };
            has_field = true;
            let why = match fields.map(|fields| fields.iter().position(|field| field == one)) {
                Some(Some(found)) => {
                    *at = found;
                    continue;
                }
                Some(None) => "would be a second field beside `name_field`: leave that out, and name its field here",
                None => "is not a placeholder, and the list has no fields",
            };
            return Err(wrong(&format!("{{{one}}} {why}")));
        }
        if has_field && parts.contains(&Part::Name) {
            return Err(wrong("beside a field of the list, {name} would be the same: use {path}"));
        }
        if !parts.iter().any(|part| !matches!(part, Part::Text(_) | Part::Host)) {
            return Err(wrong("it gives several objects the same name"));
        }
        let sample = Url::parse("http://h/x").map_err(|why| wrong(&why))?;
        let count = fields.map_or(0, <[String]>::len);
        let template = NameTemplate { parts, is_of_several: count > 1 };
        let (values, mut name) = (vec!["x"; count.max(1)].join("\0"), Vec::new());
        let given = fields.map(|_| values.as_bytes());
        template.push(&sample, given, 0, &mut name).map_err(|why| wrong(&why))?;
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
                field => Part::Field(field.to_owned(), 0),
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(parts)
    }

    /// What to do about two URLs with one name.
    pub fn advice(&self, has_fields: bool) -> &'static str {
        match (self.parts == [Part::Name] || self.parts == [Part::Path], has_fields) {
            (true, false) => "`name=\"{host}/{path}\"` or `name=\"{hash}\"` can keep them apart",
            (true, true) => {
                "`name=\"{host}/{path}\"` can keep them apart, or a column of the list, such as `name=\"{id}.jpg\"`"
            }
            (false, _) => "`{hash}` or `{index}` in `name` keeps them apart",
        }
    }

    /// Whether each name is one URL's: then a file of that name has its bytes.
    pub fn is_of_one_url(&self) -> bool {
        self.parts.contains(&Part::Hash)
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
        for part in &self.parts {
            match (part, given) {
                (Part::Text(text), _) => name.extend_from_slice(text.as_bytes()),
                (Part::Name, Some(given)) => name.extend_from_slice(given),
                (Part::Field(field, at), given) => {
                    let value = match self.is_of_several {
                        true => given.and_then(|given| given.split(|&byte| byte == SEPARATOR as u8).nth(*at)),
                        false => given,
                    };
                    let value = value.filter(|value| !value.is_empty()).ok_or_else(|| {
                        format!("its field \"{}\" is empty, and its name is made of it", escape(field.as_bytes()))
                    })?;
                    name.extend_from_slice(value);
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
        let (fields, mut name) = (fields_of(template), Vec::new());
        let pushed =
            NameTemplate::parse(template, Some(&fields)).unwrap().push(&url, given.map(str::as_bytes), 17, &mut name);
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
    fn a_template_may_name_fields_of_the_list() {
        assert_eq!(name("{host}/{sku}.jpg", "http://h/x", Some("a1")), "h/a1.jpg");
        assert!(name("{sku}.jpg", "http://h/x", None).contains("field \"sku\" is empty"));
        let template = "{host}/{shop}/{sku}-{shop}.jpg";
        assert_eq!((fields_of(template), fields_of("{name}-{index:03d}")), (vec!["shop".into(), "sku".into()], vec![]));
        assert_eq!(name(template, "http://h/x", Some("s\0a1")), "h/s/a1-s.jpg");
        assert!(name(template, "http://h/x", Some("s\0")).contains("field \"sku\" is empty"));
        assert!(name(template, "http://h/x", Some("\0a1")).contains("field \"shop\" is empty"));
        let why = |text, fields| NameTemplate::parse(text, fields).unwrap_err().to_string();
        let sku = ["sku".to_owned()];
        let no_fields = why("{sku}/{size}", None);
        assert!(no_fields.contains("{sku} is not a placeholder, and the list has no fields"), "{no_fields}");
        let both = why("{name}-{sku}", Some(&sku));
        assert!(both.contains("use {path}"), "{both}");
        let second = why("{sku}/{size}", Some(&sku));
        assert!(second.contains("{size} would be a second field"), "{second}");
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
