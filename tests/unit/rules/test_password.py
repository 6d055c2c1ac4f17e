"""Passwords against what a `.htpasswd` keeps; the samples come from openssl and libcrypt."""

from __future__ import annotations

import pytest

from magnetar.errors import InvalidConfiguration
from magnetar.rules.des_crypt import des_crypt
from magnetar.rules.password import apr1, is_password, parse_htpasswd


@pytest.mark.parametrize(
    ("password", "stored"),
    [
        ("rasmuslerdorf", "rl.3StKT.4T8M"),
        ("", "abmF1QH4PEr.E"),
        ("päss!~", "Z.oyKL6pr.A2w"),
        ("superpass", "mQtzpMnwoBM1."),
    ],
)
def test_the_crypt_of_unix_is_made(password: str, stored: str) -> None:
    assert des_crypt(password.encode(), stored[:2]) == stored


@pytest.mark.parametrize(
    ("password", "salt", "stored"),
    [
        ("päss word", "abcdefgh", "$apr1$abcdefgh$nnbOcusibcRVN8hvNIDex0"),
        ("", "ab", "$apr1$ab$S8K6Sgp3W8c9Jb6LxgywZ."),
        ("123456", "FG4AO6aX", "$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf."),
    ],
)
def test_the_md5_of_apache_is_made(password: str, salt: str, stored: str) -> None:
    assert apr1(password.encode(), salt.encode()) == stored


USERS = parse_htpasswd("# ours\n\nadmin:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\nold:rl.3StKT.4T8M\n")


@pytest.mark.parametrize(
    ("user", "password", "expected"),
    [
        ("admin", "123456", True),
        ("admin", "12345", False),
        ("admin", "", False),
        ("old", "rasmuslerdorf", True),
        ("old", "rasmusle", True),  # DES looks at eight characters only
        ("old", "rasmusl", False),
        ("nobody", "123456", False),
        ("", "", False),
    ],
)
def test_only_the_right_password_of_a_known_user_is_right(
    user: str, password: str, expected: bool
) -> None:
    assert is_password(USERS, user, password.encode()) is expected


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        ":rl.3StKT.4T8M",
        "a:b:c",
        "a:plaintext",
        "a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
        "a:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
        "a:$apr1$toolongsalt$KGYPuMoLUou3i6vUkPUUf.",
    ],
)
def test_a_line_of_another_form_is_refused_by_its_number_alone(line: str) -> None:
    with pytest.raises(InvalidConfiguration, match="line 2 ") as refusal:
        parse_htpasswd(f"ok:rl.3StKT.4T8M\n{line}\n")
    assert line.rpartition(":")[2] not in refusal.value.sentence or len(line) < 8
