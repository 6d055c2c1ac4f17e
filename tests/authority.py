"""Certificates made for one test: a signer, and what it signs."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """Signs certificates; everything lies as PEM files in one folder."""

    def __init__(self, home: Path, name: str = "signer") -> None:
        self._home = home
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = home / f"{name}.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(END)
        )

    def issue(
        self, common_name: str, *, host: str | None = None, file: str | None = None
    ) -> tuple[Path, Path]:
        """A certificate and its key; with `host` one for a server of that name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = self._builder(subject, key)
        if host is not None:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        stem = file or common_name
        certificate, private = self._home / f"{stem}.cert.pem", self._home / f"{stem}.key.pem"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return certificate, private
