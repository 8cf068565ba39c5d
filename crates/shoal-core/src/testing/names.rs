//! The one table of hostile names: listing, archives and sinks are tested against the same rows.

/// Names that must be refused: they cannot be stored safely below a destination.
#[allow(non_snake_case)] // a table, though one that needs code to build its long rows
pub fn UNSAFE() -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = [
        "",
        ".",
        "..",
        "/",
        "/etc/x",
        "//x",
        "../x",
        "a/../../x",
        "a/..",
        "a/.",
        "./a",
        "a//b",
        "a/",
        "a\0b",
        "\0",
        ".shoal",
        ".shoal/journal.db",
        ".SHOAL/journal.db",
        ".Shoal/x",
    ]
    .iter()
    .map(|row| row.as_bytes().to_vec())
    .collect();
    rows.push(vec![b'a'; 256]);
    rows.push(vec![b'a'; 5000]);
    rows.push([vec![b'd'; 255], b"/".to_vec()].concat().repeat(17)); // 4,352 bytes of legal components
    rows
}

/// Names that are odd but legal on Linux: stored under exactly these bytes.
#[allow(non_snake_case)]
pub fn LEGAL() -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = [
        "CON",
        "NUL.txt",
        "x\x1b[31m",
        "line\nbreak",
        "with space",
        "%2e",
        "%2e%2e%2fx",
        "日本語",
        "-rf",
        "a\\b",
        "..a",
        "a..",
        "...",
        "x.shoal",
        "a/.shoal",
        "trailing.",
        "a:b",
        "tab\there",
        "rtl\u{202e}gpj.exe",
        "\u{feff}bom",
        "e\u{301}",
        "\u{e9}",
        "*?[x]",
        "~",
        "$HOME",
        "`id`",
    ]
    .iter()
    .map(|row| row.as_bytes().to_vec())
    .collect();
    rows.push(vec![b'a'; 255]);
    rows.push(b"latin\xff".to_vec());
    rows
}
