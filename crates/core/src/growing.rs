//! Structs that will get more fields.

/// Declares a struct that other crates can neither build nor destructure as a whole, so that it can get more fields, and
/// a second struct with the same fields that is not part of the documentation.
///
/// The second one is for code of this workspace that must consider every field, such as row codecs and the wire: it
/// converts with `From`, and a new field does not compile until it is considered there, too.
macro_rules! growing {
    (
        $(#[$meta:meta])*
        pub struct $name:ident as $fields:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        #[doc(hidden)]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $fields {
            $(pub $field: $type,)+
        }

        impl From<$fields> for $name {
            fn from(fields: $fields) -> Self {
                let $fields { $($field),+ } = fields;
                Self { $($field),+ }
            }
        }

        impl From<$name> for $fields {
            fn from(whole: $name) -> Self {
                let $name { $($field),+ } = whole;
                Self { $($field),+ }
            }
        }
    };
}

pub(crate) use growing;
