//! Beanstalkd's protocol, as far as the driver needs it. Knows nothing of workloads.

use anyhow::{Context as _, Result, bail, ensure};
use bench_harness::Payload;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// How long a reserved job may run before others get it, in seconds.
const RUN_SECONDS: u32 = 60;

/// One connection; requests are answered in their order.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), line: String::new() })
    }

    /// Puts the jobs in one write.
    pub(crate) async fn put(&mut self, payloads: &[Payload]) -> Result<()> {
        let mut request = Vec::new();
        for payload in payloads {
            let body = serde_json::to_vec(payload)?;
            request.extend(format!("put 0 0 {RUN_SECONDS} {}\r\n", body.len()).bytes());
            request.extend(body);
            request.extend(b"\r\n");
        }
        self.stream.write_all(&request).await?;
        for _ in payloads {
            let answer = self.answer().await?;
            ensure!(answer.starts_with("INSERTED "), "put was answered by {answer}");
        }
        Ok(())
    }

    /// Reserves up to `most` jobs: waits for one, and takes what else is there.
    pub(crate) async fn reserve(
        &mut self,
        most: usize,
        mut start: impl FnMut(Payload),
    ) -> Result<Vec<u64>> {
        let mut request = String::from("reserve\r\n");
        request.push_str(&"reserve-with-timeout 0\r\n".repeat(most - 1));
        self.stream.write_all(request.as_bytes()).await?;
        let mut ids = Vec::with_capacity(most);
        for _ in 0..most {
            let answer = self.answer().await?;
            if answer == "TIMED_OUT" {
                continue;
            }
            let rest =
                answer.strip_prefix("RESERVED ").with_context(|| format!("reserve: {answer}"))?;
            let (id, length) = rest.split_once(' ').context("RESERVED without a length")?;
            ids.push(id.parse()?);
            let length: usize = length.parse()?;
            start(serde_json::from_slice(&self.body(length).await?)?);
        }
        Ok(ids)
    }

    /// Deletes reserved jobs in one write: their completion.
    pub(crate) async fn delete(&mut self, ids: &[u64]) -> Result<()> {
        let request: String = ids.iter().map(|id| format!("delete {id}\r\n")).collect();
        self.stream.write_all(request.as_bytes()).await?;
        for id in ids {
            let answer = self.answer().await?;
            ensure!(answer == "DELETED", "delete {id} was answered by {answer}");
        }
        Ok(())
    }

    /// One of the server's numbers about itself.
    pub(crate) async fn stat(&mut self, name: &str) -> Result<String> {
        self.stream.write_all(b"stats\r\n").await?;
        let answer = self.answer().await?;
        let Some(length) = answer.strip_prefix("OK ") else {
            bail!("stats was answered by {answer}")
        };
        let length: usize = length.parse()?;
        let body = String::from_utf8(self.body(length).await?)?;
        let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Ok(value.with_context(|| format!("stats say nothing about {name}"))?.to_owned())
    }

    async fn answer(&mut self) -> Result<String> {
        self.line.clear();
        let read = self.stream.read_line(&mut self.line).await?;
        ensure!(read > 0, "the server has closed the connection");
        Ok(self.line.trim_end().to_owned())
    }

    /// A body and the line end behind it.
    async fn body(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body).await?;
        body.truncate(length);
        Ok(body)
    }
}
