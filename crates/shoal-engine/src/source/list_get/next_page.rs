//! Where the next page is: what a page says of it, and what is requested for that.
//!
//! A place is a text, which the cursor keeps: a marker, a number, or the target of a URL without what the user has put
//! into `list_path`, which may be secret and is added again.
//!
//! Not here: how a page is read (`page.rs`), pages that are counted (`counted.rs`).

use shoal_http::{Address, Head, RedirectTarget, decode, encode_name, resolve};

use super::hints::links;
use super::page::Page;
use super::{PageForm, Service};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// What is requested for a page.
pub(super) struct Requested {
    /// Another host, which the user allows.
    pub host: Option<Address>,
    pub target: Vec<u8>,
}

/// The fields of answers that say where the next page is, besides those that hint at one.
pub(super) fn header(service: &Service) -> Option<String> {
    let options = &service.options;
    (options.form() == PageForm::Header).then(|| options.next_field.join(","))
}

/// What a page, and the head of its answer, say of the next page.
///
/// # Errors
/// [`Kind::Listing`] if the next page cannot be requested.
pub(super) fn place(service: &Service, asked: &Requested, page: &Page, head: &Head) -> Result<Option<String>> {
    let url = match service.options.form() {
        PageForm::One | PageForm::Number | PageForm::Offset => return Ok(None),
        PageForm::Marker => return Ok(page.next.clone()),
        PageForm::Header => {
            let value = header(service).and_then(|name| Some(String::from_utf8_lossy(head.field(&name)?).into_owned()));
            return Ok(value.filter(|value| !matches!(&**value, "" | "0" | "-1" | "null" | "false")));
        }
        PageForm::Url => page.next.clone(),
        PageForm::Link => links(head).iter().find(|link| link.is("next")).map(|link| link.url.to_owned()),
    };
    url.map(|url| place_of(service, asked, &url)).transpose()
}

/// The place that this URL is.
fn place_of(service: &Service, asked: &Requested, url: &str) -> Result<String> {
    let wrong = |why: String| Error::new(Kind::Listing, format!("the URL of the next page leads {why}"));
    let own = &service.client.address;
    let from = asked.host.as_ref().unwrap_or(own);
    let RedirectTarget { address, target } =
        resolve(from, &asked.target, url.as_bytes()).map_err(|refused| wrong(refused.why))?;
    let target = without_secrets(service, &target);
    let target = String::from_utf8(target).map_err(|_| wrong("to an address with other bytes than text".to_owned()))?;
    if own.is_same_server(&address) {
        return Ok(without_own(&service.options.list_path, &target));
    }
    let host = escape(address.authority().as_bytes());
    if own.secure && !address.secure {
        return Err(wrong(format!("from https to \"http://{host}\"")));
    }
    if !service.client.allowed.iter().any(|allowed| allowed.allows(&address)) {
        let hint = format!("`allow_host=\"{host}\"` follows it, without the headers and the password for this service");
        return Err(wrong(format!("to another host, \"{}\"", escape(address.origin().as_bytes()))).hint(hint));
    }
    // Here, the user's own parameters are only those that the service has put there.
    let list_path = &service.options.list_path;
    let kept = without_own(list_path, &target);
    let own =
        parameters(list_path).filter(|(name, _)| !values(&target, name).is_empty() && values(&kept, name).is_empty());
    let own: Vec<&str> = own.map(|(name, _)| name).collect();
    Ok(format!("{}{kept}#{}", address.origin(), own.join("&")))
}

/// Whether something else is at this place once objects have come or gone: a number may be that of a page.
pub(super) fn may_shift(form: PageForm, place: &str) -> bool {
    let is_count = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match form {
        PageForm::Url | PageForm::Link => place.split(['/', '?', '&', '=', ':', '#']).any(is_count),
        _ => is_count(place),
    }
}

/// What is requested for the page at this place; `None`: the first one.
pub(super) fn request(service: &Service, place: Option<&str>) -> Result<Requested> {
    let (options, base) = (&service.options, &service.client.address.base);
    let with = |parameter: &str, value: &str| {
        let mut target = format!("{base}{}", options.list_path).into_bytes();
        target.push(if options.list_path.contains('?') { b'&' } else { b'?' });
        encode_name(&mut target, parameter.as_bytes(), true);
        target.push(b'=');
        encode_name(&mut target, value.as_bytes(), true);
        Requested { host: None, target }
    };
    let Some(place) = place else {
        return Ok(Requested { host: None, target: format!("{base}{}", options.list_path).into_bytes() });
    };
    Ok(match options.form() {
        PageForm::One | PageForm::Marker | PageForm::Header => with(&options.marker_param, place),
        PageForm::Number | PageForm::Offset => with(options.count_param(), place),
        PageForm::Url | PageForm::Link if place.starts_with('/') => {
            Requested { host: None, target: with_own(&options.list_path, place).into_bytes() }
        }
        PageForm::Url | PageForm::Link => {
            let (place, own) = place.rsplit_once('#').unwrap_or((place, ""));
            let at = place.find("://").and_then(|at| Some(at + 3 + place[at + 3..].find('/')?)).unwrap_or(place.len());
            let own: Vec<&str> = parameters(&options.list_path)
                .filter(|(name, _)| own.split('&').any(|one| one == *name))
                .map(|(_, part)| part)
                .collect();
            let list_path = format!("/?{}", own.join("&"));
            let target = with_own(&list_path, &place[at..]).into_bytes();
            Requested { host: Some(Address::parse(&place[..at])?), target }
        }
    })
}

/// The target without parameters that repeat a word of the user's headers: some services put the token into the URL of the next
/// page. The header is sent with that, too.
fn without_secrets(service: &Service, target: &[u8]) -> Vec<u8> {
    let target = String::from_utf8_lossy(target);
    let Some((path, query)) = target.split_once('?') else { return target.into_owned().into_bytes() };
    let is_secret = |part: &&str| {
        let value = part.split_once('=').map_or("", |(_, value)| value);
        let plain = decode(value).and_then(|plain| String::from_utf8(plain).ok()).unwrap_or_default();
        plain.len() >= SECRET_MIN && service.client.fields.has_word(&service.client.address, &plain)
    };
    let kept: Vec<&str> = query.split('&').filter(|part| !is_secret(part)).collect();
    if kept.is_empty() { path.to_owned().into_bytes() } else { format!("{path}?{}", kept.join("&")).into_bytes() }
}

/// Shorter values may be in a header by chance, in bytes.
const SECRET_MIN: usize = 6;

/// The query of a path in parts, each with its name.
fn parameters(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter(|part| !part.is_empty()).map(|part| (part.split('=').next().unwrap_or_default(), part))
}

/// The values of a parameter, decoded, because services encode them in their own way.
fn values(path: &str, name: &str) -> Vec<Vec<u8>> {
    let plain = |text: &str| decode(&text.replace('+', " ")).unwrap_or_else(|| text.as_bytes().to_vec());
    let is_named = |found: &str| plain(found) == plain(name);
    parameters(path).filter(|(found, _)| is_named(found)).map(|(_, part)| plain(part)).collect()
}

/// The target without the parameters that it has from the user.
fn without_own(list_path: &str, target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let is_own = |name: &str| values(list_path, name) == values(target, name);
    let kept: Vec<&str> = parameters(target).filter(|(name, _)| !is_own(name)).map(|(_, part)| part).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The target with the parameters of the user that it does not have.
fn with_own(list_path: &str, target: &str) -> String {
    let own = parameters(list_path).filter(|(name, _)| values(target, name).is_empty()).map(|(_, part)| part);
    let mut all = target.to_owned();
    for part in own {
        all.push(if all.contains('?') { '&' } else { '?' });
        all.push_str(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_user_are_taken_from_a_url_and_added_again() {
        for (list_path, target, kept, sent) in [
            ("/l?key=S&n=2", "/l?key=S&n=2&after=x", "/l?after=x", "/l?after=x&key=S&n=2"),
            ("/l?key=S%2F&n=2", "/l?after=x&n=2", "/l?after=x", "/l?after=x&key=S%2F&n=2"),
            ("/l?key=a%20b", "/l?key=a+b&p=2", "/l?p=2", "/l?p=2&key=a%20b"),
            ("/l?key=S", "/other", "/other", "/other?key=S"),
            ("/l?n=2", "/l?n=50&p=2", "/l?n=50&p=2", "/l?n=50&p=2"),
            ("/l?t=a&t=b", "/l?t=a&t=b&p=2", "/l?p=2", "/l?p=2&t=a&t=b"),
            ("/l?t=a", "/l?t=a&t=c", "/l?t=a&t=c", "/l?t=a&t=c"),
            ("/l", "/l?p=2", "/l?p=2", "/l?p=2"),
        ] {
            assert_eq!(without_own(list_path, target), kept, "{list_path} {target}");
            assert_eq!(with_own(list_path, kept), sent, "{list_path} {target}");
        }
    }
}
