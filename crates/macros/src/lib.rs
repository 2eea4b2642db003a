//! `#[derive(Job)]`: makes a type the payload of a kind of jobs. Depends only on the names and limits of the
//! contract, not on engines; `windlass` re-exports it and contains the user documentation.

mod attributes;
mod backoff;
mod duration;
mod expand;
mod limits;
mod name;
mod suggest;
mod unique;

use proc_macro::TokenStream;

/// Makes a type the payload of a kind of jobs; documented in `windlass`, which re-exports it.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::job(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
