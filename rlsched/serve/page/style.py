"""Style and script of the page: additions to the report's style, and the renewal."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from rlsched.report.markup import STYLESHEET

RENEWED_S = 2  # seconds between requests for updates

_FOLDER = Path(__file__).parent

STYLE = STYLESHEET + (_FOLDER / "page.css").read_text("utf-8")

SCRIPT = f"const wait = {1000 * RENEWED_S};\n" + (_FOLDER / "page.js").read_text("utf-8")
"""While a reader selects text, or looks elsewhere, the page does not change."""

_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    f"script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
"""Content security policy of the page: that script, requests to this service, and nothing else."""
