package dropin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// treatment is what becomes of a flag.
type treatment string

const (
	// passed: gapless serve has the flag, with the same name and meaning.
	passed treatment = "passed on"
	// handled: it is understood here.
	handled treatment = "understood"
	// ignored: a warning in the log names the flag and the reason.
	ignored treatment = "ignored"
	// refused: the program does not start, unless the value asks for nothing.
	refused treatment = "refused"
)

// rule is what the table says about one flag.
type rule struct {
	do treatment
	// bare: the flag may stand without a value, which is then true.
	bare bool
	why  string
}

// table says what becomes of each flag, by its name without the dashes.
type table map[string]rule

// add adds flags, whose names are separated by spaces and newlines. A name that ends with ?
// may stand without a value. It panics for a flag that is there already.
func (t table) add(do treatment, why, names string) {
	for name := range strings.FieldsSeq(names) {
		name, bare := strings.CutSuffix(name, "?")
		if _, has := t[name]; has {
			panic("two rules for the flag --" + name)
		}
		t[name] = rule{do: do, bare: bare, why: why}
	}
}

// setting is a flag on the command line.
type setting struct {
	name, value string
	why         string // of one that is ignored
}

// parse reads a command line as kube-apiserver does: --name=value, --name value, --name alone
// for flags that are true or false, _ for - in names, -v and -h. A flag that the table does
// not have takes the next argument as its value if it has none and that is no flag.
func parse(t table, args []string) ([]setting, error) {
	var settings []setting
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		long, isLong := strings.CutPrefix(name, "--")
		switch {
		case isLong && long != "":
			name = strings.ReplaceAll(long, "_", "-")
		case name == "-h":
			name = "help"
		case name == "-v":
			name = "v"
		case strings.HasPrefix(name, "-v") && !hasValue: // -v5
			name, value, hasValue = "v", name[len("-v"):], true
		default:
			return nil, fmt.Errorf("unexpected argument %q: want flags only, as --name=value", args[i])
		}
		if !hasValue {
			known, is := t[name]
			switch next := i + 1; {
			case is && known.bare, name == "help", name == "version":
				value = "true"
			case next < len(args) && (is || !strings.HasPrefix(args[next], "-")):
				i, value = next, args[next]
			case is:
				return nil, fmt.Errorf("--%s needs a value: --%s=value", name, name)
			default:
				value = "true"
			}
		}
		settings = append(settings, setting{name: name, value: value})
	}
	return settings, nil
}

// judge separates the settings that are kept from those that are ignored. Its error names all
// that are refused.
func (t table) judge(settings []setting) (kept, without []setting, err error) {
	var all []error
	for _, s := range settings {
		r, is := t[s.name]
		if !is {
			r = unknown(s.name)
		}
		switch r.do {
		case passed, handled:
			kept = append(kept, s)
		case ignored:
			s.why = r.why
			without = append(without, s)
		case refused:
			if s.value == "" || s.value == "false" { // it asks for nothing
				continue
			}
			all = append(all, refusal(s, r.why))
		}
	}
	return kept, without, errors.Join(all...)
}

// refusal is the error about a setting that would make a test pass here that fails with
// upstream's program, or leave something open that is closed there.
func refusal(s setting, why string) error {
	return fmt.Errorf("--%s=%s is refused: %s; leave the flag out to start without it", s.name, s.value, why)
}

// protective are parts of the names of flags that have to do with security.
var protective = []string{ //nolint:gochecknoglobals // a constant table
	"account", "admission", "anonymous", "audit", "auth", "ca-file", "cert", "client-ca", "encryption", "key", "oidc",
	"requestheader", "secret", "tls", "token",
}

// unknown is the rule for a flag that no table has: one that has to do with security is
// refused, since ignoring it could leave something open.
func unknown(name string) rule {
	if slices.ContainsFunc(protective, func(part string) bool { return strings.Contains(name, part) }) {
		return rule{do: refused, why: "the flag is unknown, and by its name it has to do with security"}
	}
	return rule{do: ignored, why: "the flag is unknown"}
}

// help lists the flags that are not refused. What has no effect has no line of its own:
// envtest would pass such flags.
func (t table) help(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of gapless: docs/envtest.md says what differs from upstream's program.\n\nFlags:\n", program)
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	var without, not []string
	for _, name := range names {
		switch r := t[name]; r.do {
		case passed, handled:
			fmt.Fprintf(&b, "      --%s\n", name)
		case ignored:
			without = append(without, name)
		case refused:
			not = append(not, name)
		}
	}
	fmt.Fprintf(&b, "\nIgnored, with a warning that says why: %s.\n", strings.Join(without, ", "))
	fmt.Fprintf(&b, "\nRefused, with the reason: %s.\n", strings.Join(not, ", "))
	return b.String()
}
