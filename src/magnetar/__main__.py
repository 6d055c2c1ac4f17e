"""`python -m magnetar`."""

from magnetar.cli.main import main

raise SystemExit(main())
