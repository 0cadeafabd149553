//! Signatures by the Standard Webhooks specification, so that receivers verify them with a library that they have.

use std::{fmt, str::FromStr};

use base64::{
    Engine,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::WebhookError;

/// Secrets are often written without the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a receiver verifies signatures with. It does not print itself.
#[derive(Clone)]
pub struct SigningSecret(Vec<u8>);

impl SigningSecret {
    /// The value of `webhook-signature` for a message.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &str) -> String {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        for part in [id, ".", timestamp, ".", body] {
            mac.update(part.as_bytes());
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for SigningSecret {
    type Err = WebhookError;

    fn from_str(text: &str) -> Result<Self, WebhookError> {
        let key = LENIENT.decode(text.strip_prefix("whsec_").unwrap_or(text));
        key.ok().filter(|key| !key.is_empty()).map(Self).ok_or(WebhookError::Secret)
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_has_the_published_signature() {
        for secret in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            let secret: SigningSecret = secret.parse().unwrap();
            let signature =
                secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
            assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        }
    }

    #[test]
    fn a_secret_is_base64_and_does_not_print() {
        let secret: SigningSecret = "whsec_aGVsbG8".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
        for bad in ["", "whsec_", "not base64!"] {
            assert!(bad.parse::<SigningSecret>().is_err(), "{bad}");
        }
    }
}
