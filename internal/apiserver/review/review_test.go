package review_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver/review"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func admin() user.Info {
	return &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
}

func stranger() user.Info {
	return &user.DefaultInfo{Name: "jane", Groups: []string{"editors", "system:authenticated"}}
}

// ask sends a review, in a namespace for one that has a namespace.
func ask[T any](t *testing.T, u user.Info, plural, body string) (*T, error) {
	t.Helper()
	for _, r := range builtin.Catalog().Resources() {
		if r.Plural != plural {
			continue
		}
		target := kinds.Target{Resource: r, Caller: u}
		if r.Namespaced {
			target.Namespace = "shop"
		}
		out, err := review.Answer(t.Context(), review.Request{Authorizer: auth.MastersOnly{}, Target: target, Body: []byte(body)})
		if err != nil {
			return nil, err
		}
		answered := new(T)
		if err := json.Unmarshal(out.Object.JSON(), answered); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		if !out.Created || out.Object.Kind() != r.Kind || out.Object.APIVersion() != r.APIVersion() {
			t.Errorf("the answer is %s", out.Object.JSON())
		}
		return answered, nil
	}
	t.Fatalf("there is no %s", plural)
	return nil, nil
}

func TestAccessReviewsMatchEnforcement(t *testing.T) {
	const (
		create = `{"spec":{"resourceAttributes":{"verb":"create","group":"apps","resource":"deployments","namespace":"shop"}}}`
		path   = `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/metrics"}}}`
		self   = `{"spec":{"resourceAttributes":{"verb":"create","group":"authorization.k8s.io",` +
			`"resource":"selfsubjectaccessreviews"}}}`
	)
	for _, c := range []struct {
		name, body string
		user       user.Info
		want       bool
	}{
		{"administrator creates", create, admin(), true},
		{"administrator gets a path", path, admin(), true},
		{"stranger creates", create, stranger(), false},
		{"stranger gets a path", path, stranger(), false},
		{"stranger asks", self, stranger(), true},
	} {
		got, err := ask[authorizationv1.SelfSubjectAccessReview](t, c.user, "selfsubjectaccessreviews", c.body)
		if err != nil || got.Status.Allowed != c.want || !c.want && got.Status.Reason == "" {
			t.Errorf("%s: %+v, %v, want %v with a reason when not", c.name, got, err, c.want)
		}
	}
	for groups, want := range map[string]bool{`["system:masters"]`: true, `["editors"]`: false} {
		body := `{"spec":{"user":"x","groups":` + groups +
			`,"resourceAttributes":{"verb":"get","resource":"pods","namespace":"shop"}}}`
		if got, err := ask[authorizationv1.SubjectAccessReview](t, admin(), "subjectaccessreviews", body); err != nil ||
			got.Status.Allowed != want {
			t.Errorf("another user of %s: %+v, %v", groups, got, err)
		}
		if got, err := ask[authorizationv1.LocalSubjectAccessReview](t, admin(), "localsubjectaccessreviews", body); err != nil ||
			got.Status.Allowed != want {
			t.Errorf("another user of %s, in a namespace: %+v, %v", groups, got, err)
		}
	}
}

func TestEmptyReviewsAreInvalid(t *testing.T) {
	for _, c := range []struct{ plural, body string }{
		{"selfsubjectaccessreviews", `{"spec":{}}`},
		{"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"verb":"get"}}}`},
		{"subjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get"}}}`},
		{"localsubjectaccessreviews", `{"spec":{"user":"x","resourceAttributes":{"verb":"get","namespace":"other"}}}`},
	} {
		if _, err := ask[map[string]any](t, admin(), c.plural, c.body); wire.StatusOf(err).Code != 422 {
			t.Errorf("%s %s: %v, want 422", c.plural, c.body, err)
		}
	}
	if _, err := ask[map[string]any](t, admin(), "selfsubjectrulesreviews", `{"spec":{}}`); wire.StatusOf(err).Code != 400 {
		t.Errorf("rules without a namespace: %v, want 400", err)
	}
}

func TestSelfSubjectReviewReturnsTheCaller(t *testing.T) {
	got, err := ask[authenticationv1.SelfSubjectReview](t, stranger(), "selfsubjectreviews", `{}`)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	want := authenticationv1.UserInfo{Username: "jane", Groups: []string{"editors", "system:authenticated"}}
	if diff := cmp.Diff(want, got.Status.UserInfo); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRulesReviewListsEverythingOrOnlyReviews(t *testing.T) {
	const body = `{"spec":{"namespace":"shop"}}`
	all, err := ask[authorizationv1.SelfSubjectRulesReview](t, admin(), "selfsubjectrulesreviews", body)
	if err != nil || len(all.Status.ResourceRules) != 1 || all.Status.ResourceRules[0].Verbs[0] != "*" ||
		all.Status.NonResourceRules[0].NonResourceURLs[0] != "*" {
		t.Errorf("administrator: %+v, %v", all, err)
	}
	few, err := ask[authorizationv1.SelfSubjectRulesReview](t, stranger(), "selfsubjectrulesreviews", body)
	if err != nil || len(few.Status.ResourceRules) != 3 || len(few.Status.NonResourceRules) != 0 {
		t.Errorf("stranger: %+v, %v", few, err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return body
}
