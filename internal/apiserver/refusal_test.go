package apiserver_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

// refusing refuses everything with the same answer.
type refusing struct {
	auth.AlwaysAllow

	with error
}

func (r refusing) Decide(context.Context, user.Info, auth.Attributes) auth.Decision {
	return auth.Decision{Refusal: r.with}
}

// TestTheAuthorizersRefusalIsTheAnswer is for authorizers that ask another server.
func TestTheAuthorizersRefusalIsTheAnswer(t *testing.T) {
	foreign := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
		Message: "as another server says it",
	}}
	for _, with := range []error{wire.Unavailable("nobody could be asked", 3*time.Second), foreign} {
		d := openServer(t, func(c *apiserver.Config) { c.Authorizer = refusing{with: with} })
		want := wire.StatusOf(with)
		retry, _ := wire.RetryAfter(want)
		for _, c := range [][2]string{
			{"GET", configMaps}, {"GET", configMaps + "?watch=1"}, {"DELETE", configMaps + "/a"}, {"GET", "/api"},
		} {
			a := d.do(c[0], c[1], "")
			s := tree(t, a.body)
			if a.StatusCode != int(want.Code) || s["message"] != want.Message || s["reason"] != string(want.Reason) {
				t.Errorf("%s is answered %d %s, want %v", c, a.StatusCode, a.body, want)
			}
			if got := a.Header.Get("Retry-After"); got != map[int]string{0: "", 3: "3"}[retry] {
				t.Errorf("%s: Retry-After %q", c, got)
			}
		}
	}
}
