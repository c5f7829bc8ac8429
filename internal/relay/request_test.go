package relay_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gapless-io/gapless/gaplesstest"
)

// TestWhatIsWrongWithARequestIsUpstreamsToSay: the relay passes it on.
func TestWhatIsWrongWithARequestIsUpstreamsToSay(t *testing.T) {
	upstream := gaplesstest.New(t)
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	const path, table = "/api/v1/configmaps", "application/json;as=Table;v=v1;g=meta.k8s.io"
	s.knows(t, path)
	for query, accept := range map[string]string{
		"?includeObject=x": table, "?limit=many": "application/json",
		"?fieldSelector=data.a%3Db": "application/json", "": "text/plain",
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+query, http.NoBody)
		req.Header.Set("Accept", accept)
		if _, served := s.relay.Reading(req); served {
			t.Errorf("GET %s as %s is served from the mirror", path+query, accept)
		}
	}
}
