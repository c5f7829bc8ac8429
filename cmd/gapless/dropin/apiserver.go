package dropin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/auth/external"
)

// plan is what the settings of kube-apiserver come to.
type plan struct {
	bind, port, certs string
	etcd              []string
	prefix            string // of the objects in etcd
	modes             []string
	authorizers       string // the file of --authorization-config
	callers           string // the file of --authentication-config
	anonymous         string // "": not given
	certGiven         bool
	verbose           bool
	// switched are admission plugins that flags turn on and off, and named says that only those are on.
	switched map[string]bool
	named    bool
	args     []string // for gapless serve, as they are
	warnings []warning
}

// warning is about a part of a flag's value that has no effect.
type warning struct{ flag, value, why string }

// warn adds a warning.
func (p *plan) warn(flag, value, why string) {
	p.warnings = append(p.warnings, warning{flag, value, why})
}

// apiserver runs `gapless serve` as the flags of kube-apiserver say.
func (p Program) apiserver(ctx context.Context) (int, error) {
	settings, err := p.read(ctx, apiserverTable())
	if errors.Is(err, errAsked) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	plan, err := newPlan(settings)
	if err != nil {
		return 0, err
	}
	for _, w := range plan.warnings {
		p.logger().LogAttrs(ctx, slog.LevelWarn, "a flag has no effect",
			slog.String("flag", "--"+w.flag), slog.String("value", w.value), slog.String("reason", w.why))
	}
	at, err := askEtcd(ctx, plan.etcd)
	if err != nil {
		if ctx.Err() != nil { // stopped meanwhile
			return 0, nil //nolint:nilerr // it was to stop
		}
		return 0, err
	}
	args, err := plan.serve(at)
	if err != nil {
		return 0, err
	}
	return p.serveWith(ctx, plan.certs, args), nil
}

// serveWith runs gapless while certs, the directory of certificates, is held.
func (p Program) serveWith(ctx context.Context, certs string, args []string) int {
	defer hold(certs, certFiles()...)()
	return p.Serve(ctx, args)
}

// newPlan takes the settings together. Its error names all that is refused.
func newPlan(settings []setting) (*plan, error) {
	p := &plan{bind: "127.0.0.1", port: "6443", prefix: defaultPrefix, switched: map[string]bool{}}
	table := apiserverTable()
	var all []error
	for _, s := range settings {
		if table[s.name].do == passed {
			p.pass(s)
			continue
		}
		all = append(all, p.handle(s))
	}
	if len(p.etcd) == 0 && errors.Join(all...) == nil {
		all = append(all,
			errors.New(
				"--etcd-servers is required: the URL of the etcd that gapless envtest install has put beside this program"))
	}
	return p, errors.Join(all...)
}

// pass hands a flag on that gapless serve has too.
func (p *plan) pass(s setting) {
	switch s.name {
	case "anonymous-auth":
		p.anonymous = s.value
	case "tls-cert-file":
		p.certGiven = s.value != ""
	}
	p.args = append(p.args, "--"+s.name+"="+s.value)
}

// handle reads a flag that is understood here.
func (p *plan) handle(s setting) error {
	switch s.name {
	case "bind-address":
		p.bind = s.value
	case "secure-port":
		if p.port = s.value; p.port == "0" {
			return refusal(s, "there is no port without TLS to serve instead")
		}
	case "cert-dir":
		p.certs = s.value
	case "etcd-servers":
		p.etcd = append(p.etcd, list(s.value)...)
	case "etcd-prefix":
		p.prefix = s.value
	case "authorization-mode":
		p.modes = append(p.modes, list(s.value)...)
	case "authorization-config":
		p.authorizers = s.value
	case "authentication-config":
		p.callers = s.value
	case "admission-control", "enable-admission-plugins":
		return p.enabled(s)
	case "disable-admission-plugins":
		return p.disabled(s)
	case "max-requests-inflight", "max-mutating-requests-inflight":
		p.inFlight(s)
	case "tls-min-version":
		return p.minVersion(s)
	case "v":
		return p.verbosity(s)
	}
	return nil
}

// list is a flag's value of several.
func list(value string) []string {
	all := strings.Split(value, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return slices.DeleteFunc(all, func(one string) bool { return one == "" })
}

// serve returns the arguments of gapless for objects at a place. What kube-apiserver has
// without a controller manager is what envtest promises: no controllers, and anonymous requests
// are known.
func (p *plan) serve(at place) ([]string, error) {
	dir, err := at.directory(p.prefix)
	if err != nil {
		return nil, err
	}
	access, err := p.access()
	if err != nil {
		return nil, err
	}
	args := []string{
		"serve", "--data-dir=" + dir, "--listen=" + net.JoinHostPort(p.bind, p.port), access,
		"--stop-at-once", "--bootstrap=server",
		"--controllers=-garbage-collector-controller,-namespace-controller,-resourcequota-controller",
	}
	if at.NoFsync {
		args = append(args, "--unsafe-no-fsync")
	}
	enable, disable := p.plugins()
	if len(enable) > 0 {
		args = append(args, "--enable-admission-plugins="+strings.Join(enable, ","))
	}
	if len(disable) > 0 {
		args = append(args, "--disable-admission-plugins="+strings.Join(disable, ","))
	}
	if p.verbose {
		args = append(args, "--log-level=debug")
	}
	if p.callers != "" {
		args = append(args, "--authentication-config="+p.callers)
	}
	if p.anonymous == "" && !external.SaysAnonymous(p.callers) {
		args = append(args, "--anonymous-auth")
	}
	if !p.certGiven && p.certs != "" {
		cert, key := filepath.Join(p.certs, "apiserver.crt"), filepath.Join(p.certs, "apiserver.key")
		if _, err := os.Stat(cert); err == nil {
			args = append(args, "--tls-cert-file="+cert, "--tls-private-key-file="+key)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	return append(args, p.args...), nil
}
