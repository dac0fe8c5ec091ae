"""Every reason of a log line, with its meaning: `docs/operations/observe.md` has the same table.

Reasons of conditions and events are another set (`modelplane.api.reasons`): those are about an object as its users see
it, these about what a program did or could not do.
"""

from modelplane.api.reasons import ExplainedReason


class LogReason(ExplainedReason):
    """Of a log line."""

    # Every program.
    STARTING = "Starting", "The program starts. The message says which build it is."
    SERVING = "Serving", "The program takes requests. The message has its ports."
    STOPPING = "Stopping", "The program was told to end, or has ended."
    OPTION_IGNORED = "OptionIgnored", "An option changes nothing, or is probably not what was meant."
    OPTION_NEEDED = "OptionNeeded", "A proxy needs a setting for what the configuration has."
    UNPROTECTED = "Unprotected", "The program serves without TLS."
    CERTIFICATE_INVALID = "CertificateInvalid", "A new certificate cannot be used. The one before is kept."
    CERTIFICATE_RELOADED = "CertificateReloaded", "A new certificate is used."
    UNAVAILABLE = "Unavailable", "A Kubernetes API cannot be watched. What was last known is kept."
    UNDECODABLE = "Undecodable", "An object cannot be read. What was last known of it is kept."

    # The plane and the function server.
    RECONCILE_FAILED = "ReconcileFailed", "A pass over an object failed. It is tried again, and its objects stay."
    LISTENER_FAILED = "ListenerFailed", "A part of the plane failed on a change of an object."
    REQUEST_FAILED = "RequestFailed", "The API failed on a request. It is a bug."
    NOT_SIMULATED = "NotSimulated", "A simulated cluster or an object of a cloud cannot be made. It is tried again."
    PROGRAMMED = "Programmed", "Envoy has taken a new configuration."
    NOT_PROGRAMMED = "NotProgrammed", "Envoy refused a configuration. It serves the one before."
    PROXY_EXITED = "ProxyExited", "Envoy ended. It is started again."
    DASHBOARD_STALE = "DashboardStale", "The dashboard cannot be made anew. It shows what was last known."
    ANSWERED = "Answered", "The function server answered a call."
    CALL_REFUSED = "CallRefused", "A call cannot be composed. What runs stays; the composite has the reason."
    CALL_FAILED = "CallFailed", "A call failed by a bug. What runs stays; the composite has the reason."
    NOT_WATCHED = "NotWatched", "A workload cluster is not watched: its credential cannot be read or used."
    NOT_REQUEUED = "NotRequeued", "A composite whose dependencies changed was not requeued. It is tried again."
    NOT_NUDGED = "NotNudged", "Usages were not annotated, so replicas are deleted later."
    NOT_MEASURED = "NotMeasured", "Requests of canaries are not measured, so their roll-outs wait."
    LOG_NOT_READ = "LogNotRead", "The log of a loader cannot be read, so its progress is not known."
    MODELS_UNKNOWN = "ModelsUnknown", "The list of models of a provider cannot be read."

    # The hub and the agent.
    AGENT_JOINED = "AgentJoined", "An agent joined by its token."
    AGENT_REFUSED = "AgentRefused", "An agent had no token that holds."
    AGENT_CONNECTED = "AgentConnected", "An agent is connected to the hub."
    AGENT_DISCONNECTED = "AgentDisconnected", "An agent is no longer connected to the hub."
    AGENT_CUT_OFF = "AgentCutOff", "The hub ended a connection whose messages it cannot read."
    AGENT_STATE_NOT_WRITTEN = "AgentStateNotWritten", "The hub could not write whether an agent is connected."
    HUB_UNREACHABLE = "HubUnreachable", "The agent does not reach its hub. It tries again."
    CERTIFICATE_RENEWED = "CertificateRenewed", "The agent has a new certificate."
    CERTIFICATE_NOT_RENEWED = "CertificateNotRenewed", "The agent got no new certificate. It tries again."

    # The fleet router.
    PLANS_READ = "PlansRead", "The plans of services changed and were read."
    PLAN_INVALID = "PlanInvalid", "The plan of a service cannot be read. The one before is kept."
    CALLERS_INVALID = "CallersInvalid", "The callers cannot be read. Those before are kept."
    SUMMARIES_INVALID = "SummariesInvalid", "The loads of endpoints cannot be read. Those before are kept."

    # The picker and its sidecar.
    CONFIG_INVALID = "ConfigInvalid", "A new configuration of the picker is not valid. The one before is kept."
    CONFIG_RELOADED = "ConfigReloaded", "A new configuration of the picker is used."
    WORKER_RESTARTED = "WorkerRestarted", "A worker of the picker ended and is started again."
    WORKER_FAILED = "WorkerFailed", "A worker of the picker could not be run."
    NO_WORKER = "NoWorker", "No worker of the picker took a connection."
    MAIN_PROCESS_GONE = "MainProcessGone", "The main process of the picker is gone, so its worker ends."
    PLUGIN_FAULT = "PluginFault", "A plugin of the picker raised. The request was served without it."
    HANDLER_FAILED = "HandlerFailed", "A gRPC call failed by a bug. Other calls are served."
    SCRAPE_FAILED = "ScrapeFailed", "The metrics of a model server cannot be read."
    SCRAPE_RECOVERED = "ScrapeRecovered", "The metrics of a model server can be read again."
    MODELS_UNREAD = "ModelsUnread", "The list of models of a model server cannot be read."
    KV_EVENTS_MALFORMED = "KvEventsMalformed", "An event of a model server's KV cache cannot be read."
    TOKENIZER_FAILED = "TokenizerFailed", "A prompt was not tokenized. Its prefix is estimated from the text."
    ENDPOINTS_INVALID = "EndpointsInvalid", "The file of endpoints cannot be read. Those before are kept."
    POLICIES_INVALID = "PoliciesInvalid", "The file of policies cannot be read. Those before are kept."
    PEER_ENDED = "PeerEnded", "Another replica of the picker ended."
    PREFILL_REFUSED = "PrefillRefused", "A request named a prefill server that is not in the allowlist."
    PREFILL_FAILED = "PrefillFailed", "A prefill server did not respond."
    ENGINE_UNREACHABLE = "EngineUnreachable", "The sidecar's own engine did not respond."
