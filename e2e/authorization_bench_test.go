package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gapless-io/gapless"
)

// BenchmarkAuthorization is creates and lists of a user with few bindings, beside 500 roles with
// 500 bindings, and without roles.
func BenchmarkAuthorization(b *testing.B) {
	for _, mode := range []string{gapless.AuthorizationRBAC, gapless.AuthorizationAlwaysAllow} {
		s, as := launchWithUsers(b, gapless.Config{AuthorizationMode: mode})
		admin, jane := s.caller(b, http2), as("jane", "group1", "group2")
		for i := range 500 {
			admin.grant("", fmt.Sprintf("r%d", i), `[{"apiGroups":[""],"resources":["secrets","pods"],"verbs":["get","list"]}]`,
				users(fmt.Sprintf("u%d", i)))
		}
		admin.grant("default", "r", `[{"apiGroups":[""],"resources":["configmaps"],"verbs":["*"]}]`, users("jane"))
		const path = "/api/v1/namespaces/default/configmaps"
		for i := range 10 {
			jane.must(http.StatusCreated, http.MethodPost, path, fmt.Sprintf(`{"metadata":{"name":"first%d"}}`, i))
		}
		b.Run("list/"+mode, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				jane.must(http.StatusOK, http.MethodGet, path+"?limit=5", "")
			}
		})
		b.Run("create/"+mode, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				jane.must(http.StatusCreated, http.MethodPost, path, `{"metadata":{"generateName":"c-"},"data":{"a":"b"}}`)
			}
		})
		s.stop()
	}
}
