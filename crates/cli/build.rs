//! Passes the cargo profile to the program at compile time, so that `windlass bench` can print it.

use std::env;
use std::path::Path;

fn main() {
    // Cargo's own PROFILE says "release" for every optimised profile. OUT_DIR is
    // <target>/<profile>/build/<package>/out, and the dev profile's directory is called debug.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map_or("unknown".into(), |name| name.to_string_lossy());
    println!("cargo::rustc-env=WINDLASS_BUILD_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}
