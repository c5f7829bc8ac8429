package authn

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// What Secrets of bootstrap tokens are called and hold (k8s.io/cluster-bootstrap/token/api).
const (
	bootstrapPrefix   = "bootstrap-token-"
	bootstrapType     = "bootstrap.kubernetes.io/token"
	bootstrapUser     = "system:bootstrap:"
	bootstrapGroup    = "system:bootstrappers"
	bootstrapID       = "token-id"
	bootstrapSecret   = "token-secret"
	bootstrapExpires  = "expiration"
	bootstrapGroups   = "auth-extra-groups"
	bootstrapIdentify = "usage-bootstrap-authentication"
)

// The forms of tokens, and of groups that a Secret adds (k8s.io/cluster-bootstrap/token/api).
var (
	bootstrapForm      = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	bootstrapGroupForm = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
)

// BootstrapTokens are the tokens of Secrets in kube-system by which nodes join. They count as long as their Secret says
// so: what it says is read for each request (kubernetes plugin/pkg/auth/authenticator/token/bootstrap).
type BootstrapTokens struct{ Objects Objects }

// AuthenticateToken implements authenticator.Token. Who has a token that does not count is not known, which is no error.
func (b BootstrapTokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	parts := bootstrapForm.FindStringSubmatch(token)
	if parts == nil {
		return nil, false, nil
	}
	id, given := parts[1], parts[2]
	object := b.Objects.Find(secrets(), wire.Key{Namespace: metav1.NamespaceSystem, Name: bootstrapPrefix + id})
	if object == nil || object.Deleting() {
		return nil, false, nil
	}
	var secret corev1.Secret
	if err := json.Unmarshal(object.JSON(), &secret); err != nil {
		return nil, false, err
	}
	has := func(key string) string { return string(secret.Data[key]) }
	switch {
	case secret.Type != bootstrapType,
		subtle.ConstantTimeCompare(secret.Data[bootstrapSecret], []byte(given)) != 1,
		has(bootstrapID) != id, isOver(has(bootstrapExpires), time.Now()), has(bootstrapIdentify) != "true":
		return nil, false, nil
	}
	groups, valid := bootstrapGroupsOf(has(bootstrapGroups))
	if !valid {
		return nil, false, nil
	}
	return &authenticator.Response{User: withGroup(&user.DefaultInfo{Name: bootstrapUser + id, Groups: groups})}, true, nil
}

// isOver reports whether a time has come. One that cannot be read has, "" never does.
func isOver(text string, now time.Time) bool {
	if text == "" {
		return false
	}
	at, err := time.Parse(time.RFC3339, text)
	return err != nil || !now.Before(at)
}

// bootstrapGroupsOf returns the groups of a token with further ones, sorted; one of another form makes all invalid.
func bootstrapGroupsOf(further string) (groups []string, valid bool) {
	groups = []string{bootstrapGroup}
	if further == "" {
		return groups, true
	}
	for group := range strings.SplitSeq(further, ",") {
		if !bootstrapGroupForm.MatchString(group) {
			return nil, false
		}
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}
