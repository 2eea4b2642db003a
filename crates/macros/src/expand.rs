//! Generates the implementation from a type and its attributes.

use crate::attributes::{Attributes, Retention};
use crate::backoff::Backoff;
use crate::name;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Result};

pub(crate) fn job(input: &DeriveInput) -> Result<TokenStream> {
    refuse_odd_types(input)?;
    let attributes = Attributes::read(&input.attrs)?;
    let krate = match &attributes.krate {
        Some(path) => quote!(#path),
        None => quote!(::windlass),
    };
    let kind = kind(input, &attributes)?;
    let settings = settings(&attributes, &krate);
    let template = (!settings.is_empty()).then(|| {
        quote! {
            fn template() -> #krate::__private::NewJob {
                let mut job = #krate::__private::NewJob::new(Self::KIND);
                #settings
                job
            }
        }
    });
    let unique = match &attributes.unique {
        Some(unique) => unique.expand(input, &krate)?,
        None => TokenStream::new(),
    };
    let output = match &attributes.output {
        Some(output) => quote!(#output),
        None => quote!(()),
    };
    let type_name = &input.ident;
    // A dedicated trait reports missing serde derives with a clear message. The implementation repeats the
    // bounds of the trait, so that rustc adds fewer errors of its own.
    let is_payload = quote_spanned! {type_name.span()=>
        const _: fn() = || {
            fn is_payload<T: #krate::__private::Payload>() {}
            is_payload::<#type_name>();
        };
    };
    Ok(quote! {
        #is_payload

        #[automatically_derived]
        impl #krate::__private::TypedJob for #type_name
        where
            #type_name: #krate::__private::Serialize + #krate::__private::DeserializeOwned,
        {
            const KIND: &'static str = #kind;
            type Output = #output;
            #template
            #unique
        }
    })
}

/// Refuses types that cannot be a payload: it must be one concrete type that serde can deserialize.
fn refuse_odd_types(input: &DeriveInput) -> Result<()> {
    if let Data::Union(data) = &input.data {
        return Err(Error::new(
            data.union_token.span(),
            "a union cannot be a job: its payload could not be read back; use a struct or an enum",
        ));
    }
    if input.generics.params.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        input.generics.span(),
        "a job cannot be generic: one kind has one payload type, which owns its data and is found by \
         the kind's name alone; derive `Job` for a concrete type, such as a struct around this one",
    ))
}

fn kind(input: &DeriveInput, attributes: &Attributes) -> Result<String> {
    if let Some(kind) = &attributes.kind {
        return Ok(kind.clone());
    }
    let kind = name::snake_case(&input.ident.to_string());
    match name::flaw(&kind) {
        None => Ok(kind),
        Some(flaw) => Err(Error::new(
            input.ident.span(),
            format!("{kind:?} cannot be a kind: {flaw}; choose one with `#[job(kind = \"…\")]`"),
        )),
    }
}

/// Statements that set the values that differ from the defaults on `job`.
fn settings(attributes: &Attributes, krate: &TokenStream) -> TokenStream {
    let Attributes { queue, priority, max_attempts, max_crashes, .. } = attributes;
    let mut settings = TokenStream::new();
    if let Some(queue) = queue {
        settings.extend(quote!(job = job.queue(#queue);));
    }
    if let Some(priority) = priority {
        settings.extend(quote!(job.priority = #priority;));
    }
    if let Some(attempts) = max_attempts {
        settings.extend(quote!(job.policy.max_attempts = #attempts;));
    }
    if let Some(crashes) = max_crashes {
        settings.extend(quote!(job.policy.max_crashes = #crashes;));
    }
    if let Some(ms) = attributes.timeout_ms {
        settings.extend(quote!(job.policy.timeout_ms = ::core::option::Option::Some(#ms);));
    }
    if let Some(ms) = attributes.max_wait_ms {
        settings.extend(quote!(job.policy.max_wait_ms = ::core::option::Option::Some(#ms);));
    }
    if let Some(backoff) = attributes.backoff {
        let backoff = backoff_value(backoff, krate);
        settings.extend(quote!(job.policy.backoff = #backoff;));
    }
    if let Some(retention) = &attributes.retention {
        let retention = retention_value(retention, krate);
        settings.extend(quote!(job.policy.retention = ::core::option::Option::Some(#retention);));
    }
    settings
}

fn backoff_value(backoff: Backoff, krate: &TokenStream) -> TokenStream {
    match backoff {
        Backoff::Exponential { base_ms, cap_ms, jitter_ms } => quote! {
            #krate::__private::Backoff::Exponential {
                base_ms: #base_ms,
                cap_ms: #cap_ms,
                jitter_ms: #jitter_ms,
            }
        },
        Backoff::Fixed { delay_ms, jitter_ms } => quote! {
            #krate::__private::Backoff::Fixed { delay_ms: #delay_ms, jitter_ms: #jitter_ms }
        },
    }
}

fn retention_value(retention: &Retention, krate: &TokenStream) -> TokenStream {
    let Retention { finished_ms, dead_ms, expired_ms } = retention;
    let mut fields = TokenStream::new();
    if let Some(ms) = finished_ms {
        fields.extend(quote!(retention.finished_ms = #ms;));
    }
    if let Some(ms) = dead_ms {
        fields.extend(quote!(retention.dead_ms = #ms;));
    }
    if let Some(ms) = expired_ms {
        fields.extend(quote!(retention.expired_ms = #ms;));
    }
    quote!({
        let mut retention = #krate::__private::Retention::default();
        #fields
        retention
    })
}
