// Every pass, by the name it has in the pipeline. What each one does is told at the head of its
// file.
#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

namespace stator {

void LimitIndices(Graph& graph, const PassOptions& options);
void Canonicalize(Graph& graph, const PassOptions& options);
void FoldConstants(Graph& graph, const PassOptions& options);
void MergeDuplicates(Graph& graph, const PassOptions& options);
void Autodiff(Graph& graph, const PassOptions& options);
void MergeLossHead(Graph& graph, const PassOptions& options);
void ApplyOptimizer(Graph& graph, const PassOptions& options);
void MixedPrecision(Graph& graph, const PassOptions& options);
void SplitMasters(Graph& graph, const PassOptions& options);
void ExpandComposites(Graph& graph, const PassOptions& options);

void ChooseImplementations(Graph& graph, const PassOptions& options);
void SplitReductions(Graph& graph, const PassOptions& options);
void Recompute(Graph& graph, const PassOptions& options);
void LowerViews(Graph& graph, const PassOptions& options);
void FuseEpilogues(Graph& graph, const PassOptions& options);
void PlaceInConcat(Graph& graph, const PassOptions& options);
void FuseRegions(Graph& graph, const PassOptions& options);
void FuseProducts(Graph& graph, const PassOptions& options);
void OrderNodes(Graph& graph, const PassOptions& options);
void AssignStreams(Graph& graph, const PassOptions& options);
void PlanMemory(Graph& graph, const PassOptions& options);

}  // namespace stator
