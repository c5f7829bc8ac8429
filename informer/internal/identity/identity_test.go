package identity_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/gapless-io/gapless/informer/internal/identity"
)

// how are the settings that change requests, but neither the server nor the credentials.
var how = map[string]bool{
	"AcceptContentTypes": true, "ContentType": true, "GroupVersion": true, "NegotiatedSerializer": true,
	"UserAgent": true, "DisableCompression": true, "QPS": true, "Burst": true, "RateLimiter": true,
	"WarningHandler": true, "WarningHandlerWithContext": true,
}

// set changes one field to something that it is not by default.
func set(t *testing.T, f reflect.Value) {
	t.Helper()
	var value any
	switch f.Interface().(type) {
	case string:
		value = "x"
	case bool:
		value = true
	case []byte:
		value = []byte("x")
	case []string:
		value = []string{"x"}
	case map[string][]string:
		value = map[string][]string{"x": {"y"}}
	case time.Duration:
		value = time.Second
	case *clientcmdapi.AuthProviderConfig:
		value = &clientcmdapi.AuthProviderConfig{}
	case *clientcmdapi.ExecConfig:
		value = &clientcmdapi.ExecConfig{}
	case transport.WrapperFunc:
		value = transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper { return rt })
	case func(context.Context, string, string) (net.Conn, error):
		value = (&net.Dialer{}).DialContext
	case func(*http.Request) (*url.URL, error):
		value = http.ProxyFromEnvironment
	default:
		switch f.Type() {
		case reflect.TypeFor[http.RoundTripper]():
			value = http.DefaultTransport
		case reflect.TypeFor[rest.AuthProviderConfigPersister]():
			value = persister{}
		default:
			t.Fatalf("a configuration has something new, of type %s: say whether it counts", f.Type())
		}
	}
	f.Set(reflect.ValueOf(value))
}

type persister struct {
	rest.AuthProviderConfigPersister
}

// each calls f for every field of a configuration, those of structs in it included,
// with a way to get at the field in another configuration.
func each(f func(name string, index []int)) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rest.Config]()) {
		if field.Type.Kind() != reflect.Struct {
			f(field.Name, field.Index)
		} else if !field.Anonymous {
			for _, in := range reflect.VisibleFields(field.Type) {
				f(field.Name+"."+in.Name, append(append([]int(nil), field.Index...), in.Index...))
			}
		}
	}
}

func TestEverySettingOfServerAndCredentialsChangesTheIdentity(t *testing.T) {
	none := identity.Of(&rest.Config{})
	counted := 0
	each(func(name string, index []int) {
		if how[name] {
			return
		}
		counted++
		cfg := &rest.Config{}
		set(t, reflect.ValueOf(cfg).Elem().FieldByIndex(index))
		if identity.Of(cfg) == none {
			t.Errorf("%s does not count", name)
		}
		if one, other := identity.Of(cfg), identity.Of(cfg); one != other {
			t.Errorf("with %s a server is another one each time", name)
		}
	})
	if counted < 20 {
		t.Errorf("only %d settings were looked at", counted)
	}
}

func TestACopiedConfigHasTheSameIdentityUnlessItHasFunctions(t *testing.T) {
	cfg := &rest.Config{
		Host: "https://a:6443", BearerToken: "secret",
		Impersonate:     rest.ImpersonationConfig{Extra: map[string][]string{"a": {"1"}, "b": {"2"}, "c": {"3"}}},
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), KeyData: []byte("key")},
	}
	other := rest.CopyConfig(cfg)
	other.UserAgent, other.QPS = "another component", 100
	if identity.Of(cfg) != identity.Of(other) {
		t.Error("a copy that asks in another way is another server")
	}
	other.KeyData = []byte("another key")
	if identity.Of(cfg) == identity.Of(other) {
		t.Error("who has another key is the same")
	}
	cfg.Dial = (&net.Dialer{}).DialContext
	if identity.Of(cfg) == identity.Of(rest.CopyConfig(cfg)) {
		t.Error("two functions were taken for the same one")
	}
	if one, other := identity.Of(cfg), identity.Of(cfg); one != other {
		t.Error("a configuration is not the same as itself")
	}
}

func TestAdjacentValuesAreNotConfused(t *testing.T) {
	a := identity.Of(&rest.Config{Username: "ab", Password: "c"})
	b := identity.Of(&rest.Config{Username: "a", Password: "bc"})
	if a == b {
		t.Error("user and password run into each other")
	}
	if identity.Of(nil) != (identity.Server{}) {
		t.Error("no configuration is a server")
	}
}

func TestIdentitiesDoNotPrintSecrets(t *testing.T) {
	cfg := &rest.Config{
		Password: "hidden", BearerToken: "hidden", TLSClientConfig: rest.TLSClientConfig{KeyData: []byte("hidden")},
	}
	cfg.Dial = (&net.Dialer{}).DialContext
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, identity.Of(cfg)); strings.Contains(text, "hidden") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
