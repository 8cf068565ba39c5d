//! Tells the extension which profile it is built with: results of measurements say so.

use std::path::Path;

fn main() {
    // Cargo's own variable PROFILE knows "release" and "debug" only; a profile of another name has a folder of that
    // name: target/PROFILE/build/PACKAGE/out.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).iter().rev().nth(3).and_then(|name| name.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=SHOAL_BUILD_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
