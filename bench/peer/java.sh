# Sourced by the kits that run a server in Java: finds a JVM. Sets JAVA and MAJOR, or ends through the kit's `fail`.

java_major() {  # prints the feature release of the JVM at $1, or nothing
  "$1" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p'
}

find_java() {  # the newest one found; every server here needs 17 or later
  local candidate major
  JAVA='' MAJOR=0
  if [[ -n ${JAVA_HOME:-} ]]; then
    major=$(java_major "$JAVA_HOME/bin/java")
    (( ${major:-0} >= 17 )) || fail "JAVA_HOME is Java ${major:-unknown}; version $VERSION needs 17 or later"
    JAVA=$JAVA_HOME/bin/java MAJOR=$major
    return
  fi
  for candidate in /usr/lib/jvm/*/bin/java /opt/*/bin/java "$HOME"/.sdkman/candidates/java/*/bin/java \
                   /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java "$(command -v java || true)"; do
    [[ -x $candidate ]] || continue
    major=$(java_major "$candidate")
    if (( ${major:-0} > MAJOR )); then JAVA=$candidate MAJOR=$major; fi
  done
  (( MAJOR >= 17 )) || fail "no JDK 17 or later found; set JAVA_HOME"
}
