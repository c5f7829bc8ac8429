package aggregator

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/upstream"
)

// behind returns an aggregator with a server behind it, which says of itself what answer does.
func behind(t *testing.T, answer http.HandlerFunc) (a *Aggregator, name string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	a = New(Config{Logger: slog.New(slog.DiscardHandler)})
	of := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.a.b"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "a.b", Version: "v1", Service: &apiregistrationv1.ServiceReference{Namespace: "x", Name: "y"},
		},
	}
	b := (&Backend{cfg: &a.cfg}).withStatus(of)
	var err error
	if b.at, err = upstream.Open(&rest.Config{Host: s.URL}, connectWithin); err != nil {
		t.Fatalf("reach the server behind: %v", err)
	}
	t.Cleanup(b.close)
	a.services[of.Name] = &service{decoded: of, backend: b}
	return a, of.Name
}

// TestDocumentsThatCannotBeUsedAreReadLessAndLessOften has a server whose document is refused, then one that is taken, then
// none, and then a server that is being restarted.
func TestDocumentsThatCannotBeUsedAreReadLessAndLessOften(t *testing.T) {
	const good = `{"swagger":"2.0","paths":{},"definitions":{}}`
	code, body := http.StatusOK, `{"swagger":`
	a, name := behind(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the client says whether it came
	})
	next := func() time.Duration {
		t.Helper()
		again, err := a.lookAtSwagger(t.Context(), name)
		if err != nil {
			t.Fatalf("look at the document: %v", err)
		}
		return again
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		if got := next(); got != want*time.Minute {
			t.Errorf("a refused document is read again after %s, want %d min", got, want)
		}
	}
	body = good
	if got := next(); got != lookEvery || a.services[name].swagger == nil {
		t.Errorf("a document that is taken is looked at after %s, want %s", got, lookEvery)
	}
	code = http.StatusNotFound
	next()
	if got := next(); got != 2*lookEvery {
		t.Errorf("without a document it is asked for after %s, want %s", got, 2*lookEvery)
	}
	code = http.StatusServiceUnavailable
	if got := next(); got != lookEvery {
		t.Errorf("a server that does not answer is asked after %s, want %s", got, lookEvery)
	}
}
