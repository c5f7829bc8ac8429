package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// slow is a Reader whose lists wait until they may go on.
type slow struct {
	apiserver.Reader

	begun, goOn chan struct{}
}

func (s *slow) List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error) {
	if t.Resource.Plural != "configmaps" {
		return s.Reader.List(ctx, t, o)
	}
	s.begun <- struct{}{}
	<-s.goOn
	return s.Reader.List(ctx, t, o)
}

// byHeader identifies callers by a header.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (user.Info, error) {
	return &user.DefaultInfo{Name: r.Header.Get("X-Name"), Groups: []string{"system:masters"}}, nil
}

// While lists have taken all places, leases are served, and /metrics says who waits.
func TestLeasesHavePlacesOfTheirOwn(t *testing.T) {
	held := &slow{begun: make(chan struct{}, 8), goOn: make(chan struct{})}
	d := openServer(t, func(c *apiserver.Config) {
		held.Reader = c.Reader
		c.Reader, c.Authenticator = held, byHeader{}
		c.Limits = limit.Requests{Reading: 4, Writing: 1, Wait: 1} // 1 ns: not at all
	})
	ended := make(chan int, 3)
	for _, name := range []string{"a", "b", "c"} {
		go func() { // ends when the lists go on
			ended <- d.by(d.h2, "GET", configMaps, "", "X-Name: "+name).StatusCode
		}()
		<-held.begun
	}
	go func() { ended <- d.by(d.h2, "GET", configMaps, "", "X-Name: d").StatusCode }() // the last place
	<-held.begun
	if a := d.do("GET", "/api/v1/namespaces", "", "X-Name: e"); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a list when there is no place: %d %s", a.StatusCode, a.body)
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{
			"POST", leases, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"leader"}}`,
			http.StatusCreated,
		},
		{"GET", leases + "/leader", "", http.StatusOK},
		{"PATCH", leases + "/leader", `{"spec":{"holderIdentity":"e"}}`, http.StatusOK},
		{"GET", leases, "", http.StatusTooManyRequests},
	} {
		content := "Content-Type: application/json"
		if c.method == "PATCH" {
			content = "Content-Type: application/merge-patch+json"
		}
		if a := d.do(c.method, c.path, c.body, content, "X-Name: e"); a.StatusCode != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, a.StatusCode, a.body, c.want)
		}
	}
	scraped := d.do("GET", "/metrics", "", "X-Name: e").body
	for _, line := range []string{
		`apiserver_flowcontrol_current_executing_seats{priority_level="read"} 4`,
		`apiserver_flowcontrol_nominal_limit_seats{priority_level="lease"} 64`,
		`apiserver_flowcontrol_rejected_requests_total{priority_level="read"} 2`,
	} {
		if !strings.Contains(scraped, line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	close(held.goOn)
	for range 4 {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a list: %d", code)
		}
	}
}

// Names that come over one connection share: inventing them makes no shares.
func TestNamesOfOneConnectionShare(t *testing.T) {
	l := limit.NewLoad(limit.Requests{Reading: 100, Wait: 1}, limit.NewRefusals())
	took := func(ctx context.Context, prefix string) (got int) {
		for i := range 200 {
			if _, err := l.Take(ctx, l.Reading, fmt.Sprintf("%s%d", prefix, i)); err == nil {
				got++
			}
		}
		return got
	}
	server, client := net.Pipe()
	t.Cleanup(func() { _, _ = server.Close(), client.Close() })
	wrapped := limit.NewListener(one{conn: server},
		limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 9}, limit.NewRefusals())
	conn, err := wrapped.Accept()
	if err != nil {
		t.Fatalf("accept wrapped: %v", err)
	}
	if got := took(limit.NewContext(t.Context(), conn), "invented-"); got > 25 {
		t.Errorf("one connection got %d of 100 places by inventing names", got)
	}
	if _, err := l.Take(t.Context(), l.Reading, "other"); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// one is a listener of one connection.
type one struct {
	net.Listener

	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// stuck is a Writer whose creations wait until they may go on.
type stuck struct {
	apiserver.Writer

	goOn chan struct{}
}

func (s *stuck) Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error) {
	<-s.goOn
	return s.Writer.Create(ctx, t, body, o)
}

// While one user's large bodies wait for a processor, as many as a client may send at once, none is refused, and
// neither are the small requests of the same user, nor large bodies of another one.
func TestLargeBodiesWaitBeforeTheyAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	held := &stuck{goOn: make(chan struct{})}
	d := openServer(t, func(c *apiserver.Config) {
		held.Writer = c.Writer
		c.Writer, c.Authenticator = held, byHeader{}
		c.Limits = limit.Requests{Wait: time.Minute} // the test is not about how long
	})
	const bodies = 48
	body := func(name string, i int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%d"},"data":{"a":%q}}`,
			name, i, strings.Repeat("x", 900_000))
	}
	ended := make(chan answer, 2*bodies)
	send := func(name string, n int) {
		for i := range n {
			go func() { // ends when the creations go on
				ended <- d.by(d.h2, "POST", configMaps, body(name, i), "Content-Type: application/json", "X-Name: "+name)
			}()
		}
	}
	inFlight := func(want int) {
		for {
			executing, waiting := 0, 0
			scraped := d.by(d.h1, "GET", "/metrics", "", "X-Name: other").body
			for line := range strings.Lines(scraped) {
				_, _ = fmt.Sscanf(line, `apiserver_flowcontrol_current_executing_seats{priority_level="costly"} %d`, &executing)
				_, _ = fmt.Sscanf(line, `apiserver_flowcontrol_current_inqueue_requests{priority_level="costly"} %d`, &waiting)
			}
			if executing+waiting >= want || len(ended) > 0 {
				return
			}
		}
	}
	send("a", bodies)
	inFlight(bodies)
	if a := d.by(d.h1, "DELETE", configMaps+"/none", "", "X-Name: a"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a small request of the same user: %d %s", a.StatusCode, a.body)
	}
	send("b", 1)
	inFlight(bodies + 1)
	close(held.goOn)
	for range bodies + 1 {
		if a := <-ended; a.StatusCode != http.StatusCreated {
			t.Errorf("a large body: %d %s", a.StatusCode, a.body)
		}
	}
}

// unread is a client that reads nothing of its answer until it may go on.
type unread struct {
	sink

	begun, goOn chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	select {
	case u.begun <- struct{}{}:
	case <-u.goOn: // it is not the first
	}
	<-u.goOn
	return u.sink.Write(p)
}

// A client that sends a large body and does not read the answer could hold a processor for a minute and a half.
func TestClientsThatDoNotReadTheirAnswersHoldNoProcessors(t *testing.T) {
	d := openServer(t, func(c *apiserver.Config) {
		c.Authenticator = byHeader{}
		c.Limits = limit.Requests{Wait: time.Minute}
	})
	const clients = 5
	u := unread{begun: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan struct{}, clients)
	for i := range clients {
		go func() { // ends when the clients read
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a-%d"},"data":{"a":%q}}`,
				i, strings.Repeat("x", 100_000))
			d.api.ServeHTTP(&unread{sink: sink{header: http.Header{}}, begun: u.begun, goOn: u.goOn},
				d.request("POST", configMaps, body, "X-Name: a"))
			ended <- struct{}{}
		}()
	}
	for i := range clients {
		select {
		case <-u.begun:
		case <-time.After(14 * time.Second): // less than what they wait for a processor
			t.Errorf("%d of %d are answered while no client reads", i, clients)
			close(u.goOn)
			return
		}
	}
	close(u.goOn)
	for range clients {
		<-ended
	}
}

// A list is compared with its selectors while it is written, and needs the processor until its end.
func TestAListWithALongQueryHoldsItsProcessorToTheEnd(t *testing.T) {
	d := openServer(t, func(c *apiserver.Config) { c.Authenticator = byHeader{} })
	u := &unread{sink: sink{header: http.Header{}}, begun: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan struct{})
	go func() { // ends when the client reads
		defer close(ended)
		names := strings.Repeat("x,", 10_000) + "x"
		d.api.ServeHTTP(u, d.request("GET", configMaps+"?labelSelector=a+notin+("+names+")", "", "X-Name: a"))
	}()
	<-u.begun
	const held = `apiserver_flowcontrol_current_executing_seats{priority_level="processor"} 1`
	if scraped := d.by(d.h1, "GET", "/metrics", "", "X-Name: other").body; !strings.Contains(scraped, held) {
		t.Error("no processor is held while the list is written")
	}
	close(u.goOn)
	<-ended
}
