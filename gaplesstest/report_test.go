package gaplesstest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/gaplesstest"
)

// judged is a test within a test: it keeps what is logged, and may fail.
type judged struct {
	testing.TB

	failed   bool
	log      strings.Builder
	cleanups []func()
}

func (j *judged) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }
func (j *judged) Failed() bool     { return j.failed }
func (j *judged) Logf(format string, args ...any) {
	fmt.Fprintf(&j.log, format+"\n", args...)
}

func (j *judged) Fatalf(format string, args ...any) {
	j.failed = true
	j.Logf(format, args...)
	runtime.Goexit()
}

// run runs f as a test, and returns what it logged.
func (j *judged) run(f func()) string {
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		f()
	}()
	<-done
	for _, c := range slices.Backward(j.cleanups) {
		c()
	}
	return j.log.String()
}

func TestAFailedTestSaysWhatTheServerSaw(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		inner := &judged{TB: t}
		log := inner.run(func() {
			s := gaplesstest.New(inner)
			cfg := s.RESTConfig()
			cfg.UserAgent = "my-controller"
			c := client(t, cfg)
			open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=x"})
			if err != nil {
				t.Errorf("watch config maps: %v", err)
				return
			}
			t.Cleanup(open.Stop)
			s.Inject(inner, "forbidden,name=denied,verbs=get,names=a")
			_ = get(t, c, "a")
			inner.failed = fails
		})
		if !fails {
			if log != "" {
				t.Errorf("a test that passed logged:\n%s", log)
			}
			continue
		}
		for _, want := range []string{
			"1 watches are open", `configmaps in default, labels "app=x": by gapless-admin (my-controller)`,
			"1 faults are in force", "denied: 1 requests fit, applied to 1",
			"rule=denied action=forbidden verb=get uri=/api/v1/namespaces/default/configmaps/a user_agent=my-controller",
			"msg=serving",
		} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %q:\n%s", want, log)
			}
		}
	}
}

// A controller that tries again and again leaves one line, and the report fits on a page.
func TestAReportFoldsWhatIsRepeated(t *testing.T) {
	t.Parallel()
	inner := &judged{TB: t}
	log := inner.run(func() {
		s := gaplesstest.New(inner)
		c := client(t, s.RESTConfig())
		for n := range 100 {
			_ = get(t, c, fmt.Sprint("a", n))
			_ = get(t, c, fmt.Sprint(strings.Repeat("b", n+1)))
		}
		_ = get(t, c, "last")
		inner.failed = true
	})
	if n := strings.Count(log, "\n"); n > 60 {
		t.Errorf("the report has %d lines:\n%s", n, log)
	}
	last, repeated := strings.Index(log, "configmaps/last"), strings.Index(log, "configmaps/a99")
	if last < 0 || repeated < last || !strings.Contains(log, "(the last of 100 times)") ||
		strings.Contains(log, "configmaps/a98") {
		t.Errorf("the last request is not first, or what is repeated is not folded:\n%s", log)
	}
}

func TestWrongUseEndsTheTestWithAReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		do         func(inner testing.TB, s *gaplesstest.Server)
	}{
		{
			"an action that there is not", `"explode"`,
			func(inner testing.TB, s *gaplesstest.Server) { s.Inject(inner, "explode") },
		},
		{
			"a rule that cannot match", "verbs",
			func(inner testing.TB, s *gaplesstest.Server) { s.Inject(inner, "duplicate,verbs=create") },
		},
		{
			"a manifest without a kind", "kind",
			func(inner testing.TB, s *gaplesstest.Server) { s.Apply(inner, "apiVersion: v1\nmetadata: {name: a}") },
		},
		{
			"a directory that there is not", "no/such",
			func(inner testing.TB, s *gaplesstest.Server) { s.InstallCRDs(inner, "no/such") },
		},
		{"a user without a name", "a user needs a name", func(inner testing.TB, s *gaplesstest.Server) { s.User(inner, "") }},
		{"data that there is not", `"newer"`, func(inner testing.TB, s *gaplesstest.Server) { s.RestartWith(inner, "newer") }},
		{"an address that cannot be listened on", "gaplesstest: start a server", func(inner testing.TB, _ *gaplesstest.Server) {
			gaplesstest.New(inner, gaplesstest.Manifests("no/such"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := gaplesstest.New(t)
			inner := &judged{TB: t}
			log := inner.run(func() { c.do(inner, s) })
			if !inner.failed || !strings.Contains(log, c.want) {
				t.Errorf("failed: %v, log, which is to name %s:\n%s", inner.failed, c.want, log)
			}
		})
	}
}

// runner is the tests of a package.
type runner func() int

func (r runner) Run() int { return r() }

func TestMainSharesAServer(t *testing.T) {
	t.Parallel()
	var server *gaplesstest.Server
	code := gaplesstest.Main(t.Context(), runner(func() int {
		create(t, client(t, server.RESTConfig()), "a")
		return 3
	}), func(s *gaplesstest.Server) { server = s })
	if code != 3 {
		t.Errorf("the exit code is %d, want that of the tests", code)
	}
	if code := gaplesstest.Main(t.Context(), runner(func() int { return 0 }), func(*gaplesstest.Server) {},
		gaplesstest.Manifests("no/such")); code != 1 {
		t.Errorf("the exit code is %d without a server, want 1", code)
	}
}
