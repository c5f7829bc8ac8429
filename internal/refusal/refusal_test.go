package refusal_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARefusalHasTheStatusAndWhenToTryAgain(t *testing.T) {
	for after, err := range map[string]error{"2": wire.Unavailable("away", 2*time.Second), "": wire.BadRequest("no")} {
		w := httptest.NewRecorder()
		refusal.Write(w, err)
		want := wire.StatusOf(err)
		var got metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		if got.Message != want.Message || w.Code != int(want.Code) || w.Header().Get("Retry-After") != after ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v is answered %d %v %s", err, w.Code, w.Header(), w.Body)
		}
	}
}
