//! Entries by metric key, as they travel: nested objects are flattened with `/` while they are read.

use std::{collections::HashSet, fmt, marker::PhantomData, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        DeserializeSeed, Error, MapAccess, SeqAccess, Visitor,
        value::{
            BoolDeserializer, F64Deserializer, I64Deserializer, SeqAccessDeserializer, StrDeserializer,
            U64Deserializer, UnitDeserializer,
        },
    },
};

use crate::base::limits;

/// Who says that there is much more than this has not sent it yet.
const BELIEVED: usize = 64;

/// Something for each key, in the order in which it came. Each key stands once: of equal ones the later counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed<T>(Vec<(Arc<str>, T)>);

impl<T> Keyed<T> {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Arc<str>, T)> {
        self.0.iter()
    }

    fn of(mut entries: Vec<(Arc<str>, T)>) -> Self {
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            let mut seen = HashSet::with_capacity(entries.len());
            entries.reverse();
            entries.retain(|(key, _)| seen.insert(Arc::clone(key)));
            entries.reverse();
        }
        Self(entries)
    }
}

impl<T> IntoIterator for Keyed<T> {
    type Item = (Arc<str>, T);
    type IntoIter = std::vec::IntoIter<(Arc<str>, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<Arc<str>>, T> FromIterator<(K, T)> for Keyed<T> {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(entries: I) -> Self {
        Self::of(entries.into_iter().map(|(key, entry)| (key.into(), entry)).collect())
    }
}

impl<T: Serialize> Serialize for Keyed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, entry)| (&**key, entry)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keyed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Root<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Root<T> {
            type Value = Vec<(Arc<str>, T)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with metric keys")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(8).min(BELIEVED));
                read_members(map, None, 1, &mut entries)?;
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Root(PhantomData)).map(Self::of)
    }
}

fn read_members<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    mut map: A,
    parent: Option<&str>,
    depth: usize,
    out: &mut Vec<(Arc<str>, T)>,
) -> Result<(), A::Error> {
    while let Some(key) = map.next_key_seed(Name { parent })? {
        map.next_value_seed(Member { key, depth, out: &mut *out })?;
    }
    Ok(())
}

/// A key, which is never copied more than once.
struct Name<'a> {
    parent: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Arc<str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metric key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Arc<str>, E> {
        Ok(match self.parent {
            None => name.into(),
            Some(parent) => format!("{parent}/{name}").into(),
        })
    }
}

/// What stands behind a key: an entry, or an object with more keys.
struct Member<'a, T> {
    key: Arc<str>,
    depth: usize,
    out: &'a mut Vec<(Arc<str>, T)>,
}

impl<'de, T: Deserialize<'de>> Member<'_, T> {
    fn entry<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.out.push((self.key, T::deserialize(deserializer)?));
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Member<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Member<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metric")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        // Each level takes some of the stack.
        if self.depth >= limits::METRIC_DEPTH {
            let message = format!("at most {} levels of nesting are allowed here", limits::METRIC_DEPTH);
            return Err(A::Error::custom(message));
        }
        read_members(map, Some(&self.key), self.depth + 1, self.out)
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<(), E> {
        self.entry(BoolDeserializer::new(v))
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<(), E> {
        self.entry(I64Deserializer::new(v))
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<(), E> {
        self.entry(U64Deserializer::new(v))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<(), E> {
        self.entry(F64Deserializer::new(v))
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<(), E> {
        self.entry(StrDeserializer::new(v))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.entry(UnitDeserializer::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        self.entry(SeqAccessDeserializer::new(seq))
    }
}
