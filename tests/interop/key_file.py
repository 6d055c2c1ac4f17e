"""Keys for end-to-end encryption in files, in the form that the official clients read as well."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


def write_keys(folder: Path) -> tuple[Path, Path]:
    """The files of the public and of the private key."""
    pair = rsa.generate_private_key(65537, 2048)
    public, private = folder / "public.pem", folder / "private.pem"
    private.write_bytes(
        pair.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        pair.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return public, private
