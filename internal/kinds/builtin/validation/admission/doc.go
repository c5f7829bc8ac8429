// Package admission has the rules for the kinds of admissionregistration.k8s.io: webhooks,
// and policies with their bindings.
//
// A rule for a kind ([NewValidatingPolicy]) returns the errors of a new object. An update rule
// ([ValidatingPolicyUpdate]) returns the errors of a change: what older releases have accepted
// may stay. An expression is a text in CEL, which is compiled as it is when a request is
// judged; what one object may make the compiler do is bounded ([MaxExpressions],
// [MaxExpressionBytes], [MaxExpressionWork]). The rules and the texts are upstream's
// (pkg/apis/admissionregistration/validation of Kubernetes 1.37), the bounds are not.
package admission
