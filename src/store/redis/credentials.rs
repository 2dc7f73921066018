//! Who we are to Redis.

use std::fmt;
use std::path::PathBuf;

use deadpool_redis::redis::ConnectionInfo;

use crate::store::{Cause, StoreError};

/// The user and the password, beside those that the URL may name.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The user; without one, that of the URL or the default user.
    pub username: Option<String>,
    /// The password; without one, that of the URL.
    pub password: Option<Password>,
}

/// Where a password comes from.
#[derive(Clone, Debug)]
pub enum Password {
    /// From the configuration, for good.
    Given(Secret),
    /// From this file, which is read again for every connection, so that it can
    /// be changed while the service runs. A line end at its end does not belong
    /// to the password.
    File(PathBuf),
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Credentials {
    /// `info` with these credentials as they are now.
    ///
    /// # Errors
    /// When the file of the password cannot be read.
    pub(super) async fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, StoreError> {
        let mut settings = info.redis_settings().clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        match &self.password {
            Some(Password::Given(secret)) => settings = settings.set_password(&secret.0),
            Some(Password::File(path)) => {
                let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                    let path = path.display();
                    let text = format!("cannot read the password of Redis from {path}: {error}");
                    StoreError::unavailable(Cause::Login, text)
                })?;
                settings = settings.set_password(text.trim_end_matches(['\r', '\n']));
            }
            None => {}
        }
        Ok(info.set_redis_settings(settings))
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::IntoConnectionInfo as _;

    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let password = Password::Given(Secret::new("hush"));
        assert!(!format!("{password:?}").contains("hush"));
    }

    #[tokio::test]
    async fn a_file_is_read_each_time_and_named_when_it_cannot_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let credentials = Credentials {
            username: Some("limiter".into()),
            password: Some(Password::File(path.clone())),
        };
        let applied = async || {
            let info = "redis://old:hush@cache".into_connection_info().unwrap();
            let info = credentials.apply(info).await?;
            let settings = info.redis_settings();
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            Ok::<_, StoreError>((text(settings.username()), text(settings.password())))
        };
        let missing = applied().await.unwrap_err().to_string();
        assert!(missing.contains("password") && !missing.contains("hush"), "{missing}");
        for (content, password) in [("one\n", "one"), (" two \r\n", " two "), ("three", "three")] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(applied().await.unwrap(), ("limiter".into(), password.into()));
        }
    }
}
