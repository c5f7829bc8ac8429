package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestHeadersCannotChangeTheCaller(t *testing.T) {
	for name, refused := range map[string]bool{
		"X-Remote-User": true, "X-Remote-Group": true, "X-Remote-Uid": true, "X-Remote-Extra-Scopes": true, "x-remote-user": true,
		"Authorization": false, "Impersonate-User": false, "X-Remote-Addr": false, "X-Remote-Userland": false,
		"Impersonate": false, "X-Forwarded-For": false,
	} {
		err := auth.RefuseClaims(http.Header{"Accept": {"*/*"}, name: {""}})
		if (err != nil) != refused {
			t.Errorf("%s: %v, want refused: %v", name, err, refused)
		}
		if s := wire.StatusOf(err); refused && (s.Code != 403 || s.Reason != "Forbidden" || !strings.Contains(s.Message, name)) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := wire.StatusOf(auth.RefuseClaims(http.Header{
		"X-Remote-User": nil, "X-Remote-Group": nil,
	})); !strings.Contains(s.Message, "X-Remote-Group") {
		t.Errorf("of several headers the first by name is to be said: %s", s.Message)
	}
}
