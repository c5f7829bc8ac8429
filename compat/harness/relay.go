package harness

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Relay is a running `gapless relay` on a directory of its own.
type Relay struct{ *process }

// StartRelay starts the program as a relay of the API server of a kubeconfig, with further flags
// of relay, waits until it accepts requests, and ends it with the test.
func StartRelay(t testing.TB, program, kubeconfig string, flags ...string) *Relay {
	t.Helper()
	r := &Relay{newProcess(t, "the relay", program, append([]string{"relay", "--kubeconfig", kubeconfig}, flags...))}
	r.start(t)
	return r
}

// Known returns the identity of a client of upstream, as it is to be used with the relay.
func (r *Relay) Known(t testing.TB, id *Identity) *Identity {
	t.Helper()
	ca, err := os.ReadFile(r.ready.CA)
	if err != nil {
		t.Fatal(err)
	}
	return &Identity{CA: ca, Cert: id.Cert, Key: id.Key}
}

// Kubeconfig returns the file that `gapless relay kubeconfig` makes of a client's kubeconfig for
// upstream. url is the relay's, or that of a proxy to it.
func (r *Relay) Kubeconfig(t testing.TB, from, url string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), r.program, "relay", "kubeconfig", "--from", from, "--server", url, "--ca",
		r.ready.CA).Output()
	if err != nil {
		t.Fatalf("gapless relay kubeconfig: %v", err)
	}
	path := filepath.Join(t.TempDir(), "relayed")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Metric returns the sum of a metric over the label sets that match a pattern, 0 if there is none.
func (r *Relay) Metric(t testing.TB, web *http.Client, name, labels string) float64 {
	t.Helper()
	code, text := Get(t, web, r.URL+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("the relay's metrics: %d %s", code, text)
	}
	sum := 0.0
	for _, found := range regexp.MustCompile(`(?m)^`+name+`\{([^}]*)\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(labels).MatchString(found[1]) {
			continue
		}
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			t.Fatalf("%s: %v", found[0], err)
		}
		sum += n
	}
	return sum
}

// Mirror waits until the relay mirrors the collection of a path, for example of a new definition,
// whose requests it passes through until it has learned of it: a client whose list was passed
// through can be older than the mirror.
func (r *Relay) Mirror(t testing.TB, web *http.Client, path, resource string) {
	t.Helper()
	Eventually(t, "the relay mirrors "+resource, func() bool {
		code, _ := Get(t, web, r.URL+path)
		return code == http.StatusOK && r.Metric(t, web, "gapless_relay_lists_served_total", `resource="`+resource+`"`) > 0
	})
}

// Relayed is a server and a relay in front of it, with a proxy on each side of the relay.
type Relayed struct {
	Server *Server
	Relay  *Relay
	// Upstream is between the relay and the server, Clients between clients and the relay.
	Upstream, Clients *Proxy
	// Direct is the administrator for the server, and Admin for the relay.
	Direct, Admin *Identity
}

// StartRelayed builds the program and starts all of it, until the test ends.
func StartRelayed(t testing.TB) *Relayed {
	t.Helper()
	b := &Relayed{Server: Start(t)}
	b.Direct = Administrator(t, b.Server)
	b.Upstream = NewProxy(t, b.Server)
	// The server publishes no CA of client certificates.
	b.Relay = StartRelay(t, b.Server.program, b.Direct.WriteKubeconfig(t, b.Upstream.URL()), "--client-ca-file",
		b.Direct.WriteFiles(t)[0])
	b.Admin = b.Relay.Known(t, b.Direct)
	b.Relay.Mirror(t, b.Admin.Client(t), "/api/v1/configmaps", "configmaps.v1")
	b.Clients = NewProxy(t, b.Relay)
	return b
}

// frozen is how long the server does not answer in a phase: longer than a reader of the relay
// waits for what is ahead, shorter than clients wait for an answer.
const frozen = 4 * time.Second

// UnderFailures runs informers that read through the relay through a scenario like that of
// [UnderFailures], with failures on both sides of the relay, and of the relay. The informers'
// MaxLists should be 1: the relay keeps what they need in all of it.
func (b *Relayed) UnderFailures(t *testing.T, informers ...*Informer) {
	t.Helper()
	play(t, b.Server.URL, b.Direct.Client(t), b.phases(t, informers), informers)
	web := b.Admin.Client(t)
	t.Logf("the relay: %v lists of upstream in this life, %v watches; it served %v lists, resumed %v watches and refused %v",
		b.Relay.Metric(t, web, "gapless_relay_upstream_reads_total", `verb="list"`),
		b.Relay.Metric(t, web, "gapless_relay_upstream_reads_total", `verb="watch"`),
		b.Relay.Metric(t, web, "gapless_relay_lists_served_total", ""),
		b.Relay.Metric(t, web, "gapless_relay_watches_resumed_total", ""),
		b.Relay.Metric(t, web, "gapless_relay_watches_expired_total", ""))
}

// betweenEvents breaks connections by do, again and again, each time when [served] is.
func betweenEvents(working <-chan struct{}, informers []*Informer, do func()) {
	for do(); served(working, informers); {
		do()
	}
}

// served waits until all informers have got an event over the connections that they have had for a while: client-go
// lists again after a watch that was short and had none (reflector.go, VeryShortWatchError). False: working is closed.
func served(working <-chan struct{}, informers []*Informer) bool {
	after(working, 300*time.Millisecond)
	calls := make([]int, len(informers))
	for i, inf := range informers {
		calls[i] = inf.Witness.Calls()
	}
	for i, inf := range informers {
		for inf.Witness.Calls() == calls[i] {
			select {
			case <-working:
				return false
			default:
				after(working, 50*time.Millisecond)
			}
		}
	}
	return true
}

func (b *Relayed) phases(t *testing.T, informers []*Informer) []phase {
	s, r, up, down := b.Server, b.Relay, b.Upstream, b.Clients
	compact := func() { s.Run(t, "compact", "--older-than", "0s") }
	quiet := func(<-chan struct{}) {}
	kept := ""
	return []phase{
		{name: "no failure", writes: 50, faults: quiet},
		{
			name: "cut from the relay", writes: 700,
			faults: func(working <-chan struct{}) { betweenEvents(working, informers, b.Clients.Cut) },
		},
		{name: "relay cut from upstream", writes: 500, faults: func(working <-chan struct{}) {
			every(working, 400*time.Millisecond, up.Cut)
		}},
		{name: "upstream compacted, connected", writes: 400, skips: true, faults: func(working <-chan struct{}) {
			every(working, 300*time.Millisecond, compact)
		}},
		{
			name: "upstream compacted, relay disconnected", writes: 400, skips: true,
			faults: func(<-chan struct{}) { up.Refuse(); up.Cut() },
			after:  func() { compact(); up.Accept(t) },
		},
		{name: "upstream restarted", writes: 400, faults: func(<-chan struct{}) { up.Refuse(); s.Restart(t); up.Accept(t) }},
		{name: "upstream killed", writes: 400, faults: func(<-chan struct{}) { up.Refuse(); s.Crash(t); up.Accept(t) }},
		{name: "upstream frozen", writes: 400, faults: func(<-chan struct{}) {
			s.Freeze(t)
			after(t.Context().Done(), frozen)
			s.Thaw(t)
		}},
		{name: "relay restarted", writes: 400, faults: func(<-chan struct{}) { down.Refuse(); r.Restart(t); down.Accept(t) }},
		{name: "relay killed", writes: 400, faults: func(<-chan struct{}) { down.Refuse(); r.Crash(t); down.Accept(t) }},
		{
			name: "disconnected while both restart", writes: 400,
			faults: func(<-chan struct{}) { down.Refuse(); down.Cut(); r.Crash(t); s.Restart(t) },
			after:  func() { down.Accept(t) },
		},
		{
			name: "upstream restored from an older copy", writes: 400,
			faults:  func(<-chan struct{}) { up.Refuse(); kept = s.Copy(t); up.Accept(t) },
			restore: func() { up.Refuse(); s.Restore(t, kept); up.Accept(t) },
		},
		{name: "no failure again", writes: 50, faults: quiet},
	}
}

// ClientsBehindRelay runs clients as [ClientsUnderFailures] does, but through a relay; see
// [Relayed.UnderFailures].
func ClientsBehindRelay(t *testing.T, maxLists int64, clients ...Client) {
	t.Helper()
	b := StartRelayed(t)
	at := place{web: b.Direct.Client(t), url: b.Server.URL, as: b.Admin, proxy: b.Clients}
	b.UnderFailures(t, at.start(t, maxLists, clients)...)
}
