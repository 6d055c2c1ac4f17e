"""Authentication: providers that judge credentials, and the one place that asks them."""

from magnetar.broker.authentication.authenticator import Authenticator as Authenticator
from magnetar.broker.authentication.authenticator import make_authenticator as make_authenticator
from magnetar.broker.authentication.provider import Credential as Credential
