//! The options of a list/get service.

use crate::error::{Error, Kind, Result};
use crate::option::COUNT_MAX;
use crate::option::group::SERVICES;
use crate::source::HttpOptions;

/// Where the marker of the next page is, unless the user says otherwise.
const NEXT_FIELDS: [&str; 2] = ["NextMarker", "NextFile"];
/// Where services put the URL of the next page.
const NEXT_URLS: [&str; 9] = [
    "next",
    "links.next",
    "_links.next.href",
    "links.next.href",
    "@odata.nextLink",
    "nextLink",
    "next_url",
    "paging.next",
    "meta.next",
];

crate::words! {
    /// How the pages of a listing follow each other.
    pub enum PageForm {
        /// There is one page.
        One = "one",
        /// A field of a page has the marker of the next one.
        #[default]
        Marker = "marker",
        /// A field of a page has the URL of the next one.
        Url = "url",
        /// The header `Link` has the URL of the next one.
        Link = "link",
        /// A header has the marker of the next one.
        Header = "header",
        /// Pages are numbered.
        Number = "number",
        /// A page begins at an offset.
        Offset = "offset",
    }
}

impl PageForm {
    /// The place of a page is a number that shoal counts. It then names no object: what is there changes as objects come
    /// and go.
    pub(super) fn is_counted(self) -> bool {
        matches!(self, PageForm::Number | PageForm::Offset)
    }
}

crate::words! {
    /// What a page is.
    pub enum ListFormat {
        /// One JSON value.
        #[default]
        Json = "json",
        /// A JSON value on each line, for one name each.
        Jsonl = "jsonl",
        /// A name on each line.
        Lines = "lines",
    }
}

crate::options! {
    /// How to use a list/get service.
    pub struct ListGetOptions {
        /// The path of the listing.
        list_path: String = "/list".to_owned(), "Path of the listing.", metavar: Some("PATH"), group: SERVICES;
        /// The path of an object; `{name}`, which it has once, is replaced by its name.
        get_path: String = "/get/{name}".to_owned(), "Path of an object.", metavar: Some("PATH"), group: SERVICES;
        /// The field of a page with the names, an array of strings or whole numbers. For a list of objects, the path to
        /// the name in each: `"data[].id"`, `"result.files[].path"`. For a page that is an array itself: `"[]"`,
        /// `"[].id"`.
        names_field: String = "FileNames".to_owned(), "Field with the names, or 'data[].id'.", metavar: Some("FIELD"),
            binds: true, group: SERVICES;
        /// What a page of the listing is: one JSON value (`"json"`), a JSON value on each line for one name (`"jsonl"`;
        /// `names_field` is the field of each with the name, by default each is a name), or a name on each line
        /// (`"lines"`).
        list_format: ListFormat = ListFormat::Json, "What a page of the listing is.", binds: true, group: SERVICES;
        /// How the pages of the listing follow each other. `"marker"`: `next_field` has a marker, which is sent as
        /// `marker_param`. `"url"`: `next_field` has the URL of the next page. `"link"`: the header `Link` has it.
        /// `"header"`: the header that `next_field` names has the marker. `"number"` and `"offset"`: pages are counted in
        /// `page_param`, up to one without names. `"one"`: there is one page. A first page that would end the listing,
        /// although something in it looks as if there were more, is an error that names what it is.
        pages: PageForm = PageForm::Marker, "Form: one, url, link, header, number, offset.",
            metavar: Some("FORM"), binds: true, group: SERVICES;
        /// The field of a page that has the marker or the URL of the next one, or the path to it: `"paging.next.after"`. Of
        /// several, the first that exists. The listing ends at a page without it, or where it is null, false, 0, -1 or
        /// empty. For `pages="url"`, the usual names are tried by default; for `pages="header"`, it is the name of the
        /// header. `"none"` is the same as `pages="one"`.
        next_field: Vec<String> = NEXT_FIELDS.map(str::to_owned).to_vec(), "Where a page names the next.",
            metavar: Some("FIELD,..."), binds: true, group: SERVICES;
        /// The query parameter for the number or the offset of a page. By default `page` or `offset`.
        page_param: Option<String> = None, "Query parameter for the number or offset.", metavar: Some("NAME"),
            binds: true, group: SERVICES;
        /// The number or offset of the first page. By default, the first page is requested without one. Where pages are
        /// numbered, shoal then finds out whether they begin at 0 or 1.
        first_page: Option<u64> = None, "Number or offset of the first page.", metavar: Some("N"),
            range: Some((0.0, COUNT_MAX)), binds: true, group: SERVICES;
        /// The name of an object at the destination, such as `"{name}.json"`. Patterns of `include` and `exclude` match
        /// this name.
        name: String = "{name}".to_owned(), "Name at the destination, as '{name}.json'.", metavar: Some("PATTERN"),
            binds: true, group: SERVICES;
        /// The query parameter for the marker.
        marker_param: String = "next-marker".to_owned(), "Query parameter for the marker.", metavar: Some("NAME"),
            binds: true, group: SERVICES;
        /// Send `/` inside a name as `%2F`.
        encode_slash: bool = false, "Send / inside a name as %2F.", group: SERVICES;
        /// The URL is a directory on a web server: shoal reads the pages on which the server lists its files, from this
        /// directory down, as nginx, Apache, lighttpd, Caddy and `python -m http.server` make them. Links to other places are
        /// not followed. A directory with a page that cannot be read is a failure; the same command tries it again.
        index: bool = false, "Read the directory pages of a web server.", binds: true, group: SERVICES;
    }
    with { http: HttpOptions }
}

impl ListGetOptions {
    /// Those of an index: its objects are below the URL.
    ///
    /// # Errors
    /// [`Kind::Config`] if others say how a service lists its objects.
    pub(super) fn of_index(self) -> Result<ListGetOptions> {
        let ListGetOptions { name, http, .. } = self.clone();
        let plain = ListGetOptions { index: true, name, http, ..ListGetOptions::default() };
        if plain != self {
            return Err(Error::new(Kind::Config, "`index` takes no option that says how a service lists its objects"));
        }
        Ok(ListGetOptions { get_path: "/{name}".to_owned(), ..plain })
    }

    /// How pages follow each other.
    pub(super) fn form(&self) -> PageForm {
        if self.next_field == ["none"] { PageForm::One } else { self.pages }
    }

    /// The fields that may say what the next page is.
    pub(super) fn next_fields(&self) -> Vec<&str> {
        match self.form() {
            PageForm::Marker => self.next_field.iter().map(String::as_str).collect(),
            PageForm::Url if !self.names_next() => NEXT_URLS.to_vec(),
            PageForm::Url => self.next_field.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The query parameter in which pages are counted.
    pub(super) fn count_param(&self) -> &str {
        let usual = if self.form() == PageForm::Number { "page" } else { "offset" };
        self.page_param.as_deref().unwrap_or(usual)
    }

    /// `next_field` was given.
    pub(super) fn names_next(&self) -> bool {
        self.next_field != NEXT_FIELDS
    }

    /// # Errors
    /// [`Kind::Config`] if options do not go together.
    pub(super) fn check(&self) -> Result<()> {
        let form = self.form();
        let query = self.list_path.split_once('?').map_or("", |(_, query)| query);
        let counts = |part: &str| part.split('=').next() == Some(self.count_param());
        let (why, hint) = if form.is_counted() && query.split('&').any(counts) {
            (
                "`list_path` has the parameter in which pages are counted",
                "remove it there; `first_page` says where to begin",
            )
        } else if form == PageForm::Header && !self.names_next() {
            (
                "`pages=\"header\"` needs the name of the header",
                "set it with `next_field`, as in `next_field=\"X-Next-Page\"`",
            )
        } else if !form.is_counted() && (self.page_param.is_some() || self.first_page.is_some()) {
            let why = "`page_param` and `first_page` are for pages that are counted";
            (why, "use them with `pages=\"number\"` or `pages=\"offset\"`")
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::Config, why).hint(hint))
    }
}
