//! Pools that an operator makes when it begins, if nobody did.

use serde_json::{Map, Value, json};

use super::known::PodPool;

/// A CiliumPodIPPool to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPodPool {
    name: String,
    spec: Value,
}

/// Why a text says no pools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NewPodPoolError {
    /// A pool without a name.
    #[error(
        "{0:?} names no pool: write for example default=ipv4-cidrs:10.0.0.0/8;ipv4-mask-size:24"
    )]
    Unnamed(String),
    /// Something that no pool has.
    #[error(
        "pool {pool}: {text:?} is unknown: write ipv4-cidrs:CIDR,CIDR;ipv4-mask-size:BITS, and the same for \
         ipv6"
    )]
    Unknown {
        /// Which one.
        pool: String,
        /// What is unknown.
        text: String,
    },
    /// It cannot serve.
    #[error("pool {pool}: {why}")]
    Useless {
        /// Which one.
        pool: String,
        /// Why.
        why: String,
    },
}

impl NewPodPool {
    /// All that a text says: `NAME=ipv4-cidrs:CIDR,CIDR;ipv4-mask-size:BITS,NAME=...`.
    pub fn read_all(text: &str) -> Result<Vec<Self>, NewPodPoolError> {
        let mut pools: Vec<(String, String)> = Vec::new();
        // A comma stands between pools, and between the prefixes of one.
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match (part.split_once('='), pools.last_mut()) {
                (Some((name, spec)), _) => pools.push((name.trim().to_owned(), spec.to_owned())),
                (None, Some((_, spec))) => spec.extend([",", part]),
                (None, None) => return Err(NewPodPoolError::Unnamed(part.to_owned())),
            }
        }
        pools.into_iter().map(|(name, spec)| Self::read(name, &spec)).collect()
    }

    fn read(name: String, text: &str) -> Result<Self, NewPodPoolError> {
        if name.is_empty() {
            return Err(NewPodPoolError::Unnamed(text.to_owned()));
        }
        let mut spec = Map::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let unknown = || NewPodPoolError::Unknown { pool: name.clone(), text: part.to_owned() };
            let (key, value) = part.split_once(':').ok_or_else(unknown)?;
            let (family, key) = key.trim().split_once('-').ok_or_else(unknown)?;
            let value = match key {
                "cidrs" => value.split(',').map(str::trim).filter(|it| !it.is_empty()).collect(),
                "mask-size" => json!(value.trim().parse::<u8>().map_err(|_| unknown())?),
                _ => return Err(unknown()),
            };
            let key = if key == "cidrs" { key } else { "maskSize" };
            if !["ipv4", "ipv6"].contains(&family) {
                return Err(unknown());
            }
            spec.entry(family).or_insert_with(|| json!({}))[key] = value;
        }
        let spec = Value::Object(spec);
        let useless = |why| NewPodPoolError::Useless { pool: name.clone(), why };
        let read = PodPool::read(&spec);
        if let Some(why) = read.trouble {
            return Err(useless(why));
        }
        if read.ranges.is_empty() {
            return Err(useless(
                "it has no prefixes: say ipv4-cidrs and ipv4-mask-size".to_owned(),
            ));
        }
        Ok(Self { name, spec })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
            "metadata": { "name": self.name }, "spec": self.spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_as_the_flag_says_them() {
        let text = "default=ipv4-cidrs:10.0.0.0/8, 172.16.0.0/12;ipv4-mask-size:24,\
                    blue=ipv6-cidrs:fd00::/104;ipv6-mask-size:112;";
        let pools = NewPodPool::read_all(text).unwrap();
        let specs: Vec<_> = pools.iter().map(|it| it.document()["spec"].clone()).collect();
        assert_eq!(pools.iter().map(NewPodPool::name).collect::<Vec<_>>(), ["default", "blue"]);
        let default =
            json!({ "ipv4": { "cidrs": ["10.0.0.0/8", "172.16.0.0/12"], "maskSize": 24 } });
        let blue = json!({ "ipv6": { "cidrs": ["fd00::/104"], "maskSize": 112 } });
        assert_eq!(specs, [default, blue]);
        assert_eq!(NewPodPool::read_all(""), Ok(Vec::new()));
    }

    #[test]
    fn what_says_no_pool_is_refused_with_what_is_wrong() {
        for (text, words) in [
            ("10.0.0.0/8", "names no pool"),
            ("=ipv4-cidrs:10.0.0.0/8", "names no pool"),
            ("a=ipv4-cidrs", "\"ipv4-cidrs\" is unknown"),
            ("a=ipv5-cidrs:10.0.0.0/8", "is unknown"),
            ("a=ipv4-cidr:10.0.0.0/8", "is unknown"),
            ("a=ipv4-cidrs:10.0.0.0/8;ipv4-mask-size:many", "is unknown"),
            ("a=ipv4-cidrs:10.0.0.0/8", "has no maskSize"),
            ("a=ipv4-cidrs:10.0.0.0/8;ipv4-mask-size:4", "give a length from 8"),
            ("a=ipv4-cidrs:ten;ipv4-mask-size:24", "no range of addresses"),
            ("a=ipv4-cidrs:fd00::/104;ipv4-mask-size:112", "is no IPv4 range"),
            ("a=", "has no prefixes"),
        ] {
            let error = NewPodPool::read_all(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
