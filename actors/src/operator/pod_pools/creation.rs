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
    /// JSON that is none.
    #[error(
        "this is no JSON ({0}): write {{\"default\": {{\"ipv4\": {{\"cidrs\": [CIDR], \"maskSize\": BITS}}}}}}"
    )]
    Unreadable(String),
    /// Something that no pool has.
    #[error(
        "pool {pool}: {text:?} is unknown: write ipv4-cidrs:CIDR,CIDR;ipv4-mask-size:BITS, and the same for \
         ipv6, or in JSON ipv4 and ipv6, each with cidrs and maskSize"
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
    /// All that a text says: `NAME=ipv4-cidrs:CIDR,CIDR;ipv4-mask-size:BITS,NAME=...`, or in JSON a map of names
    /// to what specs of CiliumPodIPPools say.
    pub fn read_all(text: &str) -> Result<Vec<Self>, NewPodPoolError> {
        if text.trim_start().starts_with('{') {
            let pools: Map<String, Value> = serde_json::from_str(text)
                .map_err(|error| NewPodPoolError::Unreadable(error.to_string()))?;
            return pools.into_iter().map(|(name, spec)| Self::of_spec(name, spec)).collect();
        }
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
        Self::new(name, Value::Object(spec))
    }

    /// Of a spec as a CiliumPodIPPool has it.
    fn of_spec(name: String, spec: Value) -> Result<Self, NewPodPoolError> {
        const KNOWN: [&str; 4] = ["ipv4", "ipv6", "namespaceSelector", "podSelector"];
        if name.is_empty() {
            return Err(NewPodPoolError::Unnamed(spec.to_string()));
        }
        let unknown = |text: String| NewPodPoolError::Unknown { pool: name.clone(), text };
        let members = spec.as_object().ok_or_else(|| unknown(spec.to_string()))?;
        if let Some(other) = members.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(unknown(other.clone()));
        }
        Self::new(name, spec)
    }

    fn new(name: String, spec: Value) -> Result<Self, NewPodPoolError> {
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
    fn pools_are_read_from_json() {
        let text = r#"{"blue":{"ipv4":{"cidrs":["10.0.0.0/8"],"maskSize":24},"podSelector":{"matchLabels":{"a":"b"}}}}"#;
        let pools = NewPodPool::read_all(text).unwrap();
        let said: Value = serde_json::from_str(text).unwrap();
        assert_eq!((pools.len(), pools[0].name()), (1, "blue"));
        assert_eq!(pools[0].document()["spec"], said["blue"]);
        assert_eq!(NewPodPool::read_all("{}"), Ok(Vec::new()));
    }

    #[test]
    fn what_says_no_pool_is_refused_with_what_is_wrong() {
        for (text, words) in [
            ("{\"a\":", "this is no JSON"),
            ("{\"a\": 7}", "\"7\" is unknown"),
            ("{\"\": {}}", "names no pool"),
            ("{\"a\": {\"ipv5\": {}}}", "\"ipv5\" is unknown"),
            ("{\"a\": {\"ipv4\": {\"cidrs\": [\"10.0.0.0/8\"]}}}", "has no maskSize"),
            ("{\"a\": {}}", "has no prefixes"),
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
