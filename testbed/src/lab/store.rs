//! What other nodes write into the lab's etcd, over a connection that stays.

use anyhow::{Context, Result};
use etcd_client::{Client, DeleteOptions, GetOptions, Txn, TxnOp};
use tokio::runtime::{Builder, Runtime};

/// Most that etcd takes in one transaction.
const WRITES_MAX: usize = 128;
/// Largest answer that is read, bytes.
const ANSWER_MAX: usize = 512 << 20;

/// A key and its value.
pub type Pair = (String, String);

/// A client that blocks.
pub struct Store {
    runtime: Runtime,
    client: Client,
}

impl Store {
    pub(super) fn connect(server: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(Client::connect([server], None));
        let client = client.with_context(|| format!("cannot connect to etcd at {server}"))?;
        Ok(Self { runtime, client })
    }

    /// Writes one after the other.
    pub fn put<'a>(&mut self, pairs: impl IntoIterator<Item = &'a Pair>) -> Result<()> {
        self.runtime.block_on(async {
            for (key, value) in pairs {
                self.client.put(key.as_str(), value.as_str(), None).await?;
            }
            Ok(())
        })
    }

    /// Writes many at a time.
    pub fn put_many(&mut self, pairs: &[Pair]) -> Result<()> {
        self.runtime.block_on(async {
            for some in pairs.chunks(WRITES_MAX) {
                let put = |(key, value): &Pair| TxnOp::put(key.as_str(), value.as_str(), None);
                let puts: Vec<_> = some.iter().map(put).collect();
                self.client.txn(Txn::new().and_then(puts)).await?;
            }
            Ok(())
        })
    }

    /// Deletes all keys that begin so.
    pub fn delete_all(&mut self, prefix: &str) -> Result<()> {
        let options = DeleteOptions::new().with_prefix();
        self.runtime.block_on(self.client.delete(prefix, Some(options)))?;
        Ok(())
    }

    /// Reads all keys that begin so, by one question.
    pub fn list(&mut self, prefix: &str) -> Result<Vec<Pair>> {
        let mut reader = self.client.kv_client().max_decoding_message_size(ANSWER_MAX);
        let options = GetOptions::new().with_prefix();
        let mut answer = self.runtime.block_on(reader.get(prefix, Some(options)))?;
        let pairs = answer.take_kvs().into_iter().map(|pair| {
            let (key, value) = pair.into_key_value();
            Ok((String::from_utf8(key)?, String::from_utf8(value)?))
        });
        pairs.collect()
    }
}
