package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestOnlyWhoMayGetItsPathSeesTheStateOfTheServer(t *testing.T) {
	dir := t.TempDir()
	creds, err := auth.Open(dir, auth.Options{})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	var fails error
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Status = func(_ context.Context, watches int) (any, error) { return map[string]int{"watches": watches}, fails }
	})
	d.url, d.creds = serveTLS(t, d.api, creds.ServerTLS()), creds
	root, bob := d.client(2, d.user(dir, "eve", "system:masters")), d.client(2, d.user(dir, "bob"))
	const path = "/gapless/v1/status"
	if a := d.by(root, "GET", path, ""); a.StatusCode != http.StatusOK || a.body != `{"watches":1000}`+"\n" {
		t.Errorf("an administrator gets %d %s", a.StatusCode, a.body)
	}
	if a := d.by(root, "GET", path+"?watches=7", ""); a.StatusCode != http.StatusOK || a.body != `{"watches":7}`+"\n" {
		t.Errorf("with seven watches: %d %s", a.StatusCode, a.body)
	}
	for _, other := range []string{"-1", "1001", "many"} {
		if a := d.by(root, "GET", path+"?watches="+other, ""); a.StatusCode != http.StatusBadRequest {
			t.Errorf("with %s watches: %d %s", other, a.StatusCode, a.body)
		}
	}
	if a := d.by(bob, "GET", path, ""); a.StatusCode != http.StatusForbidden {
		t.Errorf("a user without permission gets %d %s", a.StatusCode, a.body)
	}
	if a := d.by(root, "POST", path, "{}"); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", a.StatusCode, a.body)
	}
	fails = wire.Internal(errors.New("unlucky"))
	if a := d.by(root, "GET", path, ""); a.StatusCode != http.StatusInternalServerError {
		t.Errorf("a failure: %d %s", a.StatusCode, a.body)
	}
	if a := openServer(t, nil).do("GET", path, ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("a server without one: %d %s", a.StatusCode, a.body)
	}
}
