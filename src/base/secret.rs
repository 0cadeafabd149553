//! Secrets: made from the system's randomness, never printed, kept as a hash, compared in constant time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret in clear. It does not print itself.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// What is kept of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(blake3::Hash);

/// The head's own key, from which tokens are derived.
#[derive(Clone)]
pub struct SigningKey([u8; 32]);

impl SigningKey {
    /// A new random key.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(Self(key))
    }

    /// Reads a key back from its stored form.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|h| Self(*h.as_bytes()))
    }

    /// The stored form.
    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The token that belongs to these parts. The same parts give the same token, so that a retried
    /// registration gets the token whose first answer was lost.
    #[must_use]
    pub fn token(&self, parts: &[&str]) -> Secret {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            // Length before content, or ("ab","c") and ("a","bc") would share a token.
            hasher.update(&super::number::size(part.len()).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Secret(hasher.finalize().to_hex().to_string())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl Secret {
    /// Wraps a secret that came from outside.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret in clear, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What may be stored of it.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(blake3::hash(self.0.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl TokenHash {
    /// Whether `secret` is the one behind this hash, in time that does not depend on where they differ
    /// (`blake3::Hash` compares in constant time).
    #[must_use]
    pub fn matches(&self, secret: &Secret) -> bool {
        self.0 == secret.hash().0
    }

    /// The stored form.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.to_hex().to_string()
    }

    /// Reads the stored form back.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(Self)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_its_parts_and_does_not_print() {
        let key = SigningKey::generate().unwrap();
        let token = key.token(&["run", "1", "actor"]);
        assert!(
            token.hash().matches(&SigningKey::from_hex(&key.to_hex()).unwrap().token(&["run", "1", "actor"]))
        );
        assert!(!token.hash().matches(&key.token(&["run", "2", "actor"])));
        assert!(!token.hash().matches(&key.token(&["ru", "n1", "actor"])));
        assert!(!format!("{token:?}{key:?}{:?}", token.hash()).contains(token.expose()));
    }
}
