//! A CA of one test, and whom it has signed, in files.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::Path;

/// Writes `ca.crt`, and `NAME.crt` and `NAME.key` for each of these, good for the host of that name.
pub fn write(directory: &Path, names: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Without a name of its own, a CA would look like those that it signs.
    params
        .distinguished_name
        .push(DnType::CommonName, "a test's CA");
    let certificate = params.self_signed(&key)?;
    std::fs::write(directory.join("ca.crt"), certificate.pem())?;
    let authority = Issuer::new(params, key);
    for name in names {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([(*name).to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, *name);
        let certificate = params.signed_by(&key, &authority)?;
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        std::fs::write(file("crt"), certificate.pem())?;
        std::fs::write(file("key"), key.serialize_pem())?;
    }
    Ok(())
}
