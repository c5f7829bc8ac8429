package policy_test

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deletion() metav1.DeleteOptions { return metav1.DeleteOptions{} }
func update() metav1.UpdateOptions   { return metav1.UpdateOptions{} }

// statusLine is the code, the reason and what follows a prefix of a refusal's text.
func statusLine(o outcome, prefix string) string {
	return fmt.Sprintf("%d %s %s", o.Code, o.Reason, strings.TrimPrefix(o.Error, prefix))
}

// equal compares trees.
func equal(a, b any) bool { return reflect.DeepEqual(a, b) }
