//! Without the feature `tls`: plain connections; an `sslmode` that needs TLS is an error.

use super::{SslFiles, SslMode, check};
use tokio_postgres::NoTls;
use tokio_postgres::tls::NoTlsStream;
use windlass_core::{Error, Result};

pub(crate) type Tls = NoTls;
pub(crate) type Stream = NoTlsStream;

pub(crate) fn tls(mode: SslMode, files: &SslFiles) -> Result<Tls> {
    check(mode, files)?;
    if files.cert.is_some() || !matches!(mode, SslMode::Disable | SslMode::Prefer) {
        let expected = "this program was built without TLS: enable the feature `tls` of \
            windlass-postgres, or leave out what asks for it";
        return Err(Error::invalid("sslmode", format!("{mode:?}"), expected));
    }
    Ok(NoTls)
}
