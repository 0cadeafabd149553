//! Connects to object stores: from an address such as `s3://bucket/prefix` and the usual environment variables.

use std::{error::Error, sync::Arc, time::Duration};

use object_store::{
    ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, path::Path,
};

/// What an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    S3,
    Gcs,
    Azure,
    /// Only tests have one.
    #[cfg(test)]
    Memory,
}

/// Where an address leads, without its scheme.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Directory(&'a str),
    Bucket(Kind, &'a str),
}

/// A store, and where in it.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) kind: Kind,
    pub(super) prefix: Path,
}

/// Takes an address apart.
pub(super) fn target(address: &str) -> Result<Target<'_>, String> {
    let Some((scheme, rest)) = address.split_once("://") else { return Ok(Target::Directory(address)) };
    let kind = match scheme.to_ascii_lowercase().as_str() {
        "file" => return Ok(Target::Directory(rest)),
        "s3" | "s3a" => Kind::S3,
        "gs" | "gcs" => Kind::Gcs,
        "az" | "azure" | "abfs" | "abfss" => Kind::Azure,
        _ => return Err(format!("{address} is no storage: give a directory, s3://…, gs://… or az://…")),
    };
    if rest.split('/').next().is_none_or(str::is_empty) {
        return Err(format!("{address} names no bucket"));
    }
    Ok(Target::Bucket(kind, rest))
}

/// Makes a client for a bucket. Nothing is asked of it yet.
pub(super) fn connect(
    kind: Kind,
    rest: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Bucket, String> {
    // Whoever was first has installed the same one, or one of their own choice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let retry =
        RetryConfig { max_retries: 8, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() };
    let options = |http: bool| {
        // A large file takes as long as it takes; silence does not.
        ClientOptions::new()
            .with_timeout_disabled()
            .with_read_timeout(Duration::from_secs(60))
            .with_connect_timeout(Duration::from_secs(10))
            .with_allow_http(http)
    };
    let failed = |e: object_store::Error| format!("{}{}", whole(&e), hint(kind, &e));
    let store: Arc<dyn ObjectStore> = match kind {
        Kind::S3 => {
            let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
            let http = http_is_meant(endpoint.iter().find_map(|key| env(key)), env("AWS_ALLOW_HTTP"));
            let builder = AmazonS3Builder::from_env().with_client_options(options(http));
            Arc::new(builder.with_bucket_name(bucket).with_retry(retry).build().map_err(failed)?)
        }
        Kind::Gcs => {
            let builder = GoogleCloudStorageBuilder::from_env().with_client_options(options(false));
            Arc::new(builder.with_bucket_name(bucket).with_retry(retry).build().map_err(failed)?)
        }
        Kind::Azure => {
            let http = http_is_meant(env("AZURE_STORAGE_ENDPOINT"), env("AZURE_ALLOW_HTTP"));
            let builder = MicrosoftAzureBuilder::from_env().with_client_options(options(http));
            Arc::new(builder.with_container_name(bucket).with_retry(retry).build().map_err(failed)?)
        }
        #[cfg(test)]
        Kind::Memory => Arc::new(object_store::memory::InMemory::new()),
    };
    let prefix = Path::parse(prefix.trim_matches('/')).map_err(|e| e.to_string())?;
    Ok(Bucket { store, kind, prefix })
}

/// Whether to speak without TLS: to this machine always, elsewhere if somebody says so.
fn http_is_meant(endpoint: Option<String>, allowed: Option<String>) -> bool {
    let is_local = |endpoint: String| {
        let host = endpoint.strip_prefix("http://").unwrap_or_default().split('/').next().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        host == "localhost" || host == "[::1]" || host.starts_with("127.")
    };
    endpoint.is_some_and(is_local)
        || allowed.is_some_and(|v| matches!(v.as_str(), "1" | "true" | "TRUE" | "True"))
}

/// An error with all that lies behind it, each once.
fn whole(e: &object_store::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = inner.source();
    }
    text
}

/// An error in words, with what to set if it looks as if something is not set.
pub(super) fn said(kind: Kind, at: &str, e: &object_store::Error) -> String {
    format!("{at}: {}{}", whole(e), hint(kind, e))
}

fn hint(kind: Kind, e: &object_store::Error) -> &'static str {
    use object_store::Error::{AlreadyExists, NotImplemented, Precondition};
    if matches!(e, AlreadyExists { .. } | NotImplemented { .. } | Precondition { .. }) {
        return "";
    }
    match kind {
        Kind::S3 => {
            " (needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role of this machine; AWS_REGION; \
             AWS_ENDPOINT_URL for a server that is not Amazon's, and AWS_ALLOW_HTTP=true if it has no TLS)"
        }
        Kind::Gcs => {
            " (needs GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT: the path of a key file)"
        }
        Kind::Azure => {
            " (needs AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or \
             AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID)"
        }
        #[cfg(test)]
        Kind::Memory => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_a_wrong_one_is_told_what_is_right() {
        assert_eq!(target("/data/x"), Ok(Target::Directory("/data/x")));
        assert_eq!(target("file:///data"), Ok(Target::Directory("/data")));
        assert_eq!(target("s3://b/p/q"), Ok(Target::Bucket(Kind::S3, "b/p/q")));
        assert_eq!(target("GS://b"), Ok(Target::Bucket(Kind::Gcs, "b")));
        assert!(target("ftp://x").unwrap_err().contains("s3://"));
        assert!(target("s3:///p").unwrap_err().contains("names no bucket"));
    }

    #[test]
    fn plain_http_is_for_this_machine_or_for_who_says_so() {
        let meant = |endpoint: &str, allowed: Option<&str>| {
            http_is_meant(Some(endpoint.to_owned()), allowed.map(str::to_owned))
        };
        assert!(meant("http://127.0.0.1:9000", None) && meant("http://localhost:9/x", None));
        assert!(!meant("http://minio:9000", None) && !meant("https://127.0.0.1", None));
        assert!(meant("http://minio:9000", Some("true")));
    }

    #[test]
    fn a_client_can_be_made_for_s3() {
        let env = |key: &str| (key == "AWS_ENDPOINT_URL").then(|| "http://127.0.0.1:1".to_owned());
        let bucket = connect(Kind::S3, "b/p/q/", &env).unwrap();
        assert_eq!(bucket.prefix.as_ref(), "p/q");
    }
}
