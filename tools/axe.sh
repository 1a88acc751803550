#!/usr/bin/env bash
# axe-core's accessibility rules over every view of the dashboard, light and dark, 360 to 1920 wide:
# the browser's test with axe beside its own checks. axe.min.js is taken out of a package of PyPI
# (axe-playwright-python; the file is Deque's, MPL-2.0) into build/axe; nothing of it is shipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
axe=build/axe/axe.min.js
if [[ ! -f $axe ]]; then
  mkdir -p build/axe
  pip download --quiet --no-deps --dest build/axe 'axe-playwright-python==0.1.8'
  python3 - build/axe <<'PYTHON'
import pathlib, sys, zipfile
place = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
    (place / "axe.min.js").write_bytes(wheel.read("axe_playwright_python/axe.min.js"))
PYTHON
fi
head -c 40 $axe | head -1
SKERRY_AXE=$PWD/$axe exec build/release/bin/test_dashboard_browser "$@"
