//! What a link on a directory page leads to. Not here: which links a page has (`page.rs`).

use shoal_http::{Address, RedirectTarget, decode, resolve};

/// What sorts an index, in queries with words.
const SORT_KEYS: [&[u8]; 9] =
    [b"sort", b"sortby", b"sort_by", b"order", b"orderby", b"order_by", b"by", b"direction", b"layout"];

/// Where a page is.
pub(super) struct Place<'a> {
    pub address: &'a Address,
    /// The parts of the path of the start directory, decoded.
    pub start: &'a [Vec<u8>],
    /// Path and query of the page, where redirects have led.
    pub target: &'a [u8],
    /// Its name: the decoded path below the start, with a slash at its end; empty for the start.
    pub directory: &'a [u8],
}

/// What a link leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Link {
    File(Vec<u8>),
    Directory(Vec<u8>),
    /// The page.
    Itself,
    /// A directory that it is in, so many levels up.
    Above(usize),
    /// The page, sorted in another way.
    Sorted,
    /// What has this name, but with a query, which may make it something else. Empty: the page.
    Hidden(Vec<u8>),
    /// Something with a query that is not below the page.
    Query,
    Elsewhere,
    /// Something below the start that cannot be requested by its name.
    Inexact(&'static str),
}

/// An `href` as browsers read it: without white space around it, tabs and line breaks.
pub(super) fn cleaned(href: &[u8]) -> Vec<u8> {
    let kept = href.trim_ascii().iter().filter(|byte| !b"\t\r\n".contains(byte));
    kept.flat_map(|&byte| match byte {
        0..=0x1f | 0x7f => format!("%{byte:02X}").into_bytes(),
        _ => vec![byte],
    })
    .collect()
}

/// Where a link leads.
pub(super) fn follow(place: &Place<'_>, (address, target): &(Address, Vec<u8>), href: &[u8]) -> Link {
    let Ok(RedirectTarget { address: to, target }) = resolve(address, target, href) else { return Link::Elsewhere };
    if !place.address.is_same_server(&to) {
        return Link::Elsewhere;
    }
    let Some(at) = target.iter().position(|&byte| byte == b'?') else { return lead(place, &target) };
    match lead(place, &target[..at]) {
        Link::Itself if is_sort(&target[at + 1..]) => Link::Sorted,
        Link::Itself => Link::Hidden(Vec::new()),
        Link::File(name) | Link::Directory(name) => Link::Hidden(name),
        Link::Inexact(why) => Link::Inexact(why),
        _ => Link::Query,
    }
}

/// Whether a query only sorts an index: `C=N;O=D`, `N=D` (Apache, nginx, Jetty, lighttpd) or `sort=name&order=desc` (Caddy).
fn is_sort(query: &[u8]) -> bool {
    let mut parts = query.split(|byte| b"&;".contains(byte)).filter(|part| !part.is_empty());
    parts.all(|part| {
        let at = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
        let (key, value) = (&part[..at], part.get(at + 1..).unwrap_or_default());
        let is_letter = |text: &[u8]| text.len() == 1 && text[0].is_ascii_uppercase();
        let is_word =
            value.len() <= 16 && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        is_letter(key) && is_letter(value) || is_word && SORT_KEYS.contains(&&*key.to_ascii_lowercase())
    })
}

/// Where a path leads.
fn lead(place: &Place<'_>, path: &[u8]) -> Link {
    let parts: Vec<Option<Vec<u8>>> = parts(path).collect();
    let depth = parts.len() - usize::from(parts.last().is_some_and(|last| last.as_deref() == Some(b"")));
    let own_depth = place.start.len() + place.directory.iter().filter(|&&byte| byte == b'/').count();
    if parts.len() <= place.start.len()
        || !parts.iter().zip(place.start).all(|(part, start)| part.as_ref() == Some(start))
    {
        // Every index has a link to the directory above it; some without a slash at its end.
        let is_above = parts[..depth].iter().map(Option::as_ref).eq(place.start.iter().map(Some).take(depth));
        return if is_above { Link::Above(own_depth - depth) } else { Link::Elsewhere };
    }
    let mut name = Vec::with_capacity(path.len());
    for (at, part) in parts[place.start.len()..].iter().enumerate() {
        let is_last = at + 1 + place.start.len() == parts.len();
        let part = match part.as_deref() {
            None => return Link::Inexact("its percent-encoding is not correct, so that it has no name"),
            Some(b"." | b"..") => return Link::Inexact("its path has encoded dots, so that it has no name"),
            Some(b"") if !is_last => return Link::Inexact("its path has an empty part, so that it has no name"),
            Some(part) if part.iter().any(|byte| b"\0/".contains(byte)) => {
                return Link::Inexact("it has an encoded slash or zero byte, which no name can have");
            }
            Some(part) => part,
        };
        name.extend_from_slice(part);
        name.extend_from_slice(if is_last { b"" } else { b"/" });
    }
    let is_directory = name.is_empty() || name.ends_with(b"/");
    match name.strip_prefix(place.directory) {
        Some(b"") => Link::Itself,
        Some(_) if is_directory => Link::Directory(name),
        Some(_) => Link::File(name),
        None if is_directory && place.directory.starts_with(&name) => Link::Above(own_depth - depth),
        None => Link::Elsewhere,
    }
}

/// The name of the directory at this path and query, if it is the start or below it.
pub(super) fn directory_at(address: &Address, start: &[Vec<u8>], target: &[u8]) -> Option<Vec<u8>> {
    let place = Place { address, start, target, directory: b"" };
    match follow(&place, &(address.clone(), target.to_vec()), target) {
        Link::Itself => Some(Vec::new()),
        Link::Directory(name) => Some(name),
        _ => None,
    }
}

/// The parts of an absolute path, decoded; `None` where the encoding is not correct.
pub(super) fn parts(path: &[u8]) -> impl Iterator<Item = Option<Vec<u8>>> + '_ {
    path.split(|&byte| byte == b'/').skip(1).map(|part| decode(std::str::from_utf8(part).ok()?))
}
