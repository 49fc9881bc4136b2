from agents.models.calls import AdmittedCall, LLMArtifact, ModelTest, PromptText, SpentTokens
from agents.models.jobs import Job, ProcessHeartbeat, SweepLease
from agents.models.servers import (
    EmbeddedServer,
    ModelChoice,
    ModelServer,
    ProviderConsent,
    RefusedField,
    ReportedWindow,
    SpendingCap,
    TokenCalibration,
)

__all__ = [
    "AdmittedCall",
    "EmbeddedServer",
    "Job",
    "LLMArtifact",
    "ModelChoice",
    "ModelServer",
    "ModelTest",
    "ProcessHeartbeat",
    "PromptText",
    "ProviderConsent",
    "RefusedField",
    "ReportedWindow",
    "SpendingCap",
    "SpentTokens",
    "SweepLease",
    "TokenCalibration",
]
