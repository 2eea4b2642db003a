//! Parses `unique` and `unique(by(account, month), period = "1h")`, and generates the rule.

use crate::attributes::{duration, set, text, unknown, word};
use crate::limits::AGE_MAX_MS;
use crate::suggest;
use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Member, Result, Token, parenthesized};

const KNOWN: &[&str] = &["by", "period", "until", "scope", "on_conflict"];
/// The values of `scope` and the variants of `UniqueScope`.
const SCOPES: &[(&str, &str)] =
    &[("lane", "Lane"), ("queue", "Queue"), ("kind", "Kind"), ("global", "Global")];
/// The values of `until` and the variants of `Until`; `period` is the other variant.
const UNTILS: &[(&str, &str)] = &[("finished", "Finished"), ("removed", "Removed")];
/// The values of `on_conflict` and the variants of `OnConflict`.
const CONFLICTS: &[(&str, &str)] = &[
    ("existing", "Existing"),
    ("replace", "Replace"),
    ("debounce", "Debounce"),
    ("throttle", "Throttle"),
    ("reject", "Reject"),
];

/// The uniqueness rule of a type.
#[derive(Default)]
pub(crate) struct Unique {
    /// The fields of the key; `None` for the whole payload.
    by: Option<Vec<Member>>,
    period_ms: Option<u64>,
    until: Option<Ident>,
    scope: Option<Ident>,
    on_conflict: Option<Ident>,
}

impl Unique {
    /// Parses the attribute behind the word `unique`.
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut unique = Self::default();
        if !meta.input.peek(syn::token::Paren) {
            if meta.input.is_empty() || meta.input.peek(Token![,]) {
                return Ok(unique);
            }
            return Err(meta.error(
                "`unique` stands alone, for the whole payload, or takes options, as in \
                 `unique(by(account), period = \"1h\")`",
            ));
        }
        meta.parse_nested_meta(|option| match word(&option).as_str() {
            "by" => set(&mut unique.by, &option, members(&option)?),
            "period" => set(&mut unique.period_ms, &option, duration(&option, 1..=AGE_MAX_MS)?),
            "until" => set(&mut unique.until, &option, variant(&text(&option)?, UNTILS)?),
            "scope" => set(&mut unique.scope, &option, variant(&text(&option)?, SCOPES)?),
            "on_conflict" => {
                set(&mut unique.on_conflict, &option, variant(&text(&option)?, CONFLICTS)?)
            }
            _ => Err(unknown(&option, KNOWN)),
        })?;
        if let Some(until) = unique.until.as_ref().filter(|_| unique.period_ms.is_some()) {
            return Err(Error::new(
                until.span(),
                "`until` and `period` exclude each other; keep one",
            ));
        }
        match &unique.on_conflict {
            Some(conflict) if *conflict == "Throttle" && unique.period_ms.is_none() => Err(
                Error::new(conflict.span(), "\"throttle\" needs a period, as in `period = \"1h\"`"),
            ),
            _ => Ok(unique),
        }
    }

    /// The method that computes the rule of a job.
    pub(crate) fn expand(&self, input: &DeriveInput, krate: &TokenStream) -> Result<TokenStream> {
        let key = match &self.by {
            None => quote!(#krate::__private::unique_key(Self::KIND, self)?),
            Some(members) => {
                let fields = members.iter().map(|member| {
                    check_field(input, member)?;
                    let name = match member {
                        Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
                        Member::Unnamed(index) => index.index.to_string(),
                    };
                    Ok(quote!(.with(#name, &self.#member)?))
                });
                let fields = fields.collect::<Result<Vec<_>>>()?;
                quote!(#krate::__private::UniqueFields::default() #(#fields)* .key(Self::KIND))
            }
        };
        let mut rule = quote!(#krate::__private::Unique::by(#key));
        if let Some(ms) = self.period_ms {
            rule.extend(quote!(.until(#krate::__private::Until::window_ms(#ms))));
        }
        if let Some(until) = &self.until {
            rule.extend(quote!(.until(#krate::__private::Until::#until)));
        }
        if let Some(scope) = &self.scope {
            rule.extend(quote!(.scope(#krate::__private::UniqueScope::#scope)));
        }
        if let Some(conflict) = &self.on_conflict {
            rule.extend(quote!(.on_conflict(#krate::__private::OnConflict::#conflict)));
        }
        Ok(quote! {
            fn unique_rule(&self) -> #krate::__private::CoreResult<
                ::core::option::Option<#krate::__private::Unique>,
            > {
                ::core::result::Result::Ok(::core::option::Option::Some(#rule))
            }
        })
    }
}

/// The fields in `by(a, b)`.
fn members(option: &ParseNestedMeta<'_>) -> Result<Vec<Member>> {
    let form = "`by` takes fields, as in `by(account, month)`";
    let content;
    if !option.input.peek(syn::token::Paren) {
        return Err(option.error(form));
    }
    parenthesized!(content in option.input);
    let members = Punctuated::<Member, Token![,]>::parse_terminated(&content)
        .map_err(|error| Error::new(error.span(), form))?;
    if members.is_empty() {
        return Err(option.error("`by` names no field; leave it out for the whole payload"));
    }
    let members: Vec<Member> = members.into_iter().collect();
    for (at, member) in members.iter().enumerate() {
        if members[..at].contains(member) {
            return Err(Error::new(member_span(member), "this field is named twice; keep one"));
        }
    }
    Ok(members)
}

/// The variant for one of the known words, at the place of the word.
fn variant(text: &LitStr, known: &[(&str, &str)]) -> Result<Ident> {
    let value = text.value();
    if let Some((_, variant)) = known.iter().find(|(word, _)| *word == value) {
        return Ok(Ident::new(variant, text.span()));
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let words = words.join("\", \"");
    Err(Error::new(text.span(), format!("{value:?} is not known here; use one of \"{words}\"")))
}

/// Refuses a name that is not a field of the type.
fn check_field(input: &DeriveInput, member: &Member) -> Result<()> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            member_span(member),
            "an enum has no fields that all its values share; use `unique` without `by`",
        ));
    };
    if data.fields.members().any(|field| field == *member) {
        return Ok(());
    }
    let known: Vec<String> = match &data.fields {
        Fields::Named(fields) => fields
            .named
            .iter()
            .filter_map(|field| field.ident.as_ref())
            .map(Ident::to_string)
            .collect(),
        Fields::Unnamed(fields) => (0..fields.unnamed.len()).map(|at| at.to_string()).collect(),
        Fields::Unit => Vec::new(),
    };
    let name = match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = match suggest::nearest(&name, &known) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    let message = format!("`{}` has no field `{name}`{meant}", input.ident);
    Err(Error::new(member_span(member), message))
}

fn member_span(member: &Member) -> proc_macro2::Span {
    match member {
        Member::Named(name) => name.span(),
        Member::Unnamed(index) => index.span,
    }
}
